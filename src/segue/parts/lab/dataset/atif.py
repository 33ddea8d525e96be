"""Trajectories in two formats: the Agent Trajectory Interchange Format 1.8, and the traces of the Hub."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from segue.parts.lab.dataset.trajectory import TracedCall, Trajectory, Turn

SCHEMA = "ATIF-v1.8"
_EXTRA = ("task", "phase", "build_phase", "attempt", "result", "failure", "proof_level")
_PATCH = ("base", "head", "diff", "cut")


def to_atif(found: Trajectory, versions: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the document; `versions` are those of the agents, as far as they report them."""
    facts = found.facts
    model = {"model_name": facts["model"]} if facts["model"] else {}
    steps = [_prompt(found), *(_step(turn) for turn in found.turns)]
    metrics = {
        "total_prompt_tokens": facts["input_tokens"],
        "total_completion_tokens": facts["output_tokens"],
        "total_cost_usd": facts["cost_usd"],
    }
    extra = {name: facts[name] for name in _EXTRA if facts[name] is not None}
    if facts["diff"] is not None:
        extra["patch"] = {name: facts[name] for name in _PATCH}
    version = (versions or {}).get(facts["agent"] or "", "unknown")
    return {
        "schema_version": SCHEMA,
        "session_id": found.run,
        "trajectory_id": found.name,
        "agent": {"name": facts["agent"] or "unknown", "version": version, **model},
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
        "final_metrics": {
            **{name: value for name, value in metrics.items() if value is not None},
            "total_steps": len(steps),
        },
        "extra": {"segue": extra},
    }


def _prompt(found: Trajectory) -> dict[str, Any]:
    return {"source": "user", "message": found.prompt, **_time(found.began)}


def _step(turn: Turn) -> dict[str, Any]:
    step: dict[str, Any] = {"source": "agent", "message": turn.text, **_time(turn.ts)}
    if turn.thought:
        step["reasoning_content"] = turn.thought
    if turn.calls:
        step["tool_calls"] = [
            {"tool_call_id": call.id, "function_name": call.name, "arguments": _arguments(call)}
            for call in turn.calls
        ]
        ended = [call for call in turn.calls if call.is_ended]
        if ended:
            step["observation"] = {"results": [_result(call) for call in ended]}
    return step


def _arguments(call: TracedCall) -> dict[str, Any]:
    if isinstance(call.given, dict):
        return call.given
    return {} if call.given is None else {"input": call.given}


def _result(call: TracedCall) -> dict[str, Any]:
    status = {"extra": {"status": call.status}} if call.status else {}
    return {"source_call_id": call.id, "content": text_of(call.result), **status}


def text_of(result: Any) -> str:
    """Return the result of a tool as text; what is structured as JSON."""
    if result is None:
        return ""
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


def _time(ts: int) -> dict[str, str]:
    if not ts:
        return {}
    moment = datetime.fromtimestamp(ts / 1000, UTC).isoformat(timespec="milliseconds")
    return {"timestamp": moment.replace("+00:00", "Z")}


HARNESS = "segue"


def to_lines(found: Trajectory) -> Iterator[dict[str, Any]]:
    """Yield the lines: the header, then what was said."""
    facts = found.facts
    name = f"{facts['task'] or 'plan'} {facts['phase']} {facts['attempt']}"
    yield {"type": "session", "harness": HARNESS, "id": found.name, "name": name}
    yield _message("user", found.prompt, found.began)
    for turn in found.turns:
        yield _said(turn, facts["model"])
        for call in turn.calls:
            if call.is_ended:
                yield _message("tool", text_of(call.result), turn.ts, toolCallId=call.id)


def _said(turn: Turn, model: str | None) -> dict[str, Any]:
    more: dict[str, Any] = {"model": model} if model else {}
    if turn.thought:
        more["reasoningContent"] = turn.thought
    if turn.calls:
        more["toolCalls"] = [
            {"id": call.id, "function": {"name": call.name, "arguments": json.dumps(call.given)}}
            for call in turn.calls
        ]
    return _message("assistant", turn.text, turn.ts, **more)


def _message(role: str, content: str, ts: int, **more: Any) -> dict[str, Any]:
    when = {"timestamp": ts} if ts else {}
    return {"type": "message", "message": {"role": role, "content": content, **more, **when}}
