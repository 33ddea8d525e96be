"""Trajectories in the Session Trace Simple Format of the Hugging Face Hub: one file of JSON lines each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from segue.parts.lab.dataset.atif import text_of
from segue.parts.lab.dataset.trajectory import Trajectory, Turn

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
