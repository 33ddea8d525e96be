"""What the agent is told: one WEBHOOK_RESULT line per thing that happened, with the details below it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from segue.domain.run import Step, StepState

Kind = Literal["message", "result"]
_FIRST = ("agent_id", "status")
_DETAILS = ("text", "output", "stdout", "stderr")
_NOT_TOLD = ("due",)
_LONGEST = 8000
_QUIET = ("set", "heard")
_SKIPS_TOLD = 20


@dataclass(frozen=True, slots=True)
class Item:
    """Something the agent has not been told yet."""

    id: str
    kind: Kind
    text: str
    loud: bool = True
    """Whether it is worth a turn of its own; the others are told along with the next one."""


def news(steps: Sequence[Step]) -> list[Item]:
    """All that has happened and was not told, in its order; from what the journal knows alone."""
    told = {name for step in steps if _is(step, "say") for name in step.output.get("items", [])}
    found = [item for step in steps if step.state is not StepState.STARTED for item in _items(step)]
    return [item for item in found if item.id not in told]


def _is(step: Step, phase: str) -> bool:
    return step.key.startswith("turn/") and step.key.count("/") == 2 and step.key.endswith(f"/{phase}")


def _items(step: Step) -> list[Item]:
    parts = step.key.split("/")
    if parts[0] == "inbox":
        return _from_inbox(step)
    if _is(step, "read"):
        return _skipped(step)
    if len(parts) == 4 and parts[2] == "command":
        return [Item(step.key, "result", told(parts, step.output), step.output.get("status") not in _QUIET)]
    if len(parts) == 5 and parts[4] == "due":
        facts = {"status": "due", "reminder": f"{parts[1]}.{parts[3]}", "text": step.input.get("message", "")}
        return [Item(step.key, "result", line(facts))]
    return []


def _from_inbox(step: Step) -> list[Item]:
    output = step.output
    if output.get("kind") == "webhook":
        facts = {
            name: output[name]
            for name in ("agent_id", "status", "repo", "branch", "text")
            if output.get(name)
        }
        return [] if output.get("known") else [Item(step.key, "result", line(facts))]
    return [Item(step.key, "message", str(output.get("text", "")))]


def _skipped(step: Step) -> list[Item]:
    skipped = step.output.get("skipped", [])
    if not skipped:
        return []
    lines = [
        line({"status": "skipped", "line": entry["line"], "reason": entry["reason"]})
        for entry in skipped[:_SKIPS_TOLD]
    ]
    if (more := int(step.output.get("skipped_count", 0)) - len(lines)) > 0:
        lines.append(line({"status": "skipped", "reason": f"{more} further lines"}))
    return [Item(step.key, "result", "\n".join(lines), loud=False)]


def told(parts: Sequence[str], output: dict[str, Any]) -> str:
    """What came of command K of turn N, as the agent reads it."""
    return line({**output, "command": f"{parts[1]}.{parts[3]}"})


def line(facts: dict[str, Any]) -> str:
    """One WEBHOOK_RESULT line; texts of several lines stand below it, each line marked."""
    names = [*(name for name in _FIRST if name in facts), *(n for n in facts if n not in _FIRST + _DETAILS)]
    pairs = [f"{name}={_flat(facts[name])}" for name in names if name not in _NOT_TOLD]
    details = [f"| {text}" for name in _DETAILS for text in _lines(facts.get(name))]
    return "\n".join([f"WEBHOOK_RESULT: {', '.join(pairs)}", *details])


def _flat(value: object) -> str:
    return " ".join(str(value).split())[:500]


def _lines(text: object) -> list[str]:
    return str(text)[-_LONGEST:].splitlines() if text else []
