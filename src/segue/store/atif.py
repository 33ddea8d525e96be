"""Exports attempts in the Agent Trajectory Interchange Format (ATIF) 1.8: a line of JSON for each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, BinaryIO

from msgspec import Struct, field

from segue.domain.events import AgentText, AgentThought, AgentTool, PromptSent, Recorded, StepStarted

if TYPE_CHECKING:
    from segue.store.store import Store


SCHEMA = "ATIF-v1.8"
_EXTRA = ("task", "phase", "build_phase", "attempt", "result", "failure", "proof_level")
_PATCH = ("base", "head", "diff", "cut")

_SEEN = (StepStarted, PromptSent, AgentText, AgentThought, AgentTool)
_FACTS = """
    SELECT a.step, a.gen, a.task, a.phase, a.build_phase, a.attempt, a.agent,
           coalesce(a.model_reported, a.model) AS model, a.result, a.failure, a.input_tokens, a.output_tokens,
           a.cost_usd, a.proof_level, p.base, p.head, p.diff, p.cut
    FROM segue_attempts a
    LEFT JOIN segue_patches p ON p.run_id = a.run_id AND p.step = a.step AND p.gen = a.gen
    WHERE a.run_id = ? ORDER BY a.seq
"""


class TracedCall(Struct):
    """One call of a tool; `result` is None while its end was not reported."""

    id: str
    name: str
    given: Any
    result: Any = None
    is_ended: bool = False
    status: str = ""


class Turn(Struct):
    """Something the agent said, with what it thought before and did after."""

    ts: int
    """Milliseconds since the epoch."""
    text: str = ""
    thought: str = ""
    calls: list[TracedCall] = field(default_factory=list)


class Trajectory(Struct):
    """One attempt: its prompt and its turns, with the facts of its row in `segue_attempts`."""

    run: str
    step: str
    gen: int
    facts: dict[str, Any]
    prompt: str = ""
    began: int = 0
    turns: list[Turn] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its id among all trajectories."""
        return f"{self.run}/{self.step}" + (f"/{self.gen}" if self.gen > 1 else "")

    def see(self, seen: Recorded, prompt: str) -> None:
        """Take in one event."""
        match seen.event:
            case PromptSent():
                self.prompt, self.began = prompt, seen.ts
                self.turns.clear()  # it was adopted after a crash, and is read again from its beginning
            case AgentThought(text):
                self._turn(seen.ts, fresh=bool(self._last and (self._last.text or self._last.calls)))
                self.turns[-1].thought += text
            case AgentText(text):
                self._turn(seen.ts, fresh=bool(self._last and (self._last.text or self._last.calls)))
                self.turns[-1].text = text
            case AgentTool() as tool:
                self._use(seen, tool)
            case _:
                pass

    @property
    def _last(self) -> Turn | None:
        return self.turns[-1] if self.turns else None

    def _turn(self, ts: int, fresh: bool) -> None:
        if fresh or not self.turns:
            self.turns.append(Turn(ts))

    def _use(self, seen: Recorded, tool: AgentTool) -> None:
        """A late result belongs to the turn that made the call."""
        name = tool.id or f"call-{seen.seq}"
        open_ = (call for turn in reversed(self.turns) for call in turn.calls if not call.is_ended)
        call = next((call for call in open_ if tool.id and call.id == tool.id), None)
        if call is None:
            self._turn(seen.ts, fresh=any(call.id == name for turn in self.turns[-1:] for call in turn.calls))
            call = TracedCall(name, tool.name, tool.input)
            self.turns[-1].calls.append(call)
        if tool.state != "started":
            call.result, call.is_ended, call.status = tool.result, True, tool.status


def export_atif(store: Store, file: BinaryIO) -> int:
    """Write every attempt of every run; return how many there are."""
    count = 0
    for row in store.query("SELECT id FROM orchestrator_runs ORDER BY created, id"):
        for found in read_trajectories(store, row["id"]):
            file.write(json.dumps(to_atif(found)).encode() + b"\n")
            count += 1
    return count


def read_trajectories(store: Store, run: str) -> Iterator[Trajectory]:
    """Yield the attempts of a run, in order."""
    rows = store.query(_FACTS, [run])
    found = {(row["step"], row["gen"]): Trajectory(run, row["step"], row["gen"], row) for row in rows}
    gens: dict[str, int] = {}
    for seen in store.events(run, kinds=_SEEN):
        step = seen.step or ""
        if isinstance(seen.event, StepStarted):
            gens[step] = seen.event.gen
        trajectory = found.get((step, gens.get(step, 1)))
        if trajectory is not None:
            event = seen.event
            trajectory.see(seen, _read_prompt(store, event.digest) if isinstance(event, PromptSent) else "")
    yield from found.values()


def _read_prompt(store: Store, digest: str) -> str:
    found = store.query("SELECT text FROM orchestrator_prompts WHERE digest = ?", [digest])
    return str(found[0]["text"]) if found else ""


def to_atif(found: Trajectory) -> dict[str, Any]:
    """Return one attempt as a document."""
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
    return {
        "schema_version": SCHEMA,
        "session_id": found.run,
        "trajectory_id": found.name,
        "agent": {"name": facts["agent"] or "unknown", "version": "unknown", **model},
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
    return {"source_call_id": call.id, "content": _text_of(call.result), **status}


def _text_of(result: Any) -> str:
    if result is None:
        return ""
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


def _time(ts: int) -> dict[str, str]:
    if not ts:
        return {}
    moment = datetime.fromtimestamp(ts / 1000, UTC).isoformat(timespec="milliseconds")
    return {"timestamp": moment.replace("+00:00", "Z")}
