"""Formats what the agent is shown: one WEBHOOK_RESULT line per event, with the details below it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal

from msgspec import Struct

from segue.domain.results import read_as
from segue.domain.run import Step, StepState
from segue.parts.bridge.steps import CommandOutput, MessageOutput, ReminderInput, ReplyOutput, SayOutput

_FIRST = ("agent_id", "status")
_DETAILS = ("text", "output", "stdout", "stderr")
_NOT_TOLD = ("due",)
_LONGEST = 8000
_QUIET = ("set", "heard")
_SKIPS_TOLD = 20
_ONE_MORE = (
    "Nothing was run. If you meant a command, print it again: the keyword in capitals at the start of a "
    "line, outside of lists, quotes, bold and code fences. If not, answer again without such a line."
)


class NewsItem(Struct, frozen=True):
    """Something the agent has not seen yet."""

    id: str
    kind: Literal["message", "result"]
    text: str
    loud: bool = True
    """True if it deserves a turn of its own; other items wait for the next turn."""


def collect_news(steps: Sequence[Step]) -> list[NewsItem]:
    """Return everything the agent has not seen, in order, from the journal alone."""
    said = [read_as(SayOutput, step.output) for step in steps if _is_turn_step(step, "say")]
    seen = {name for say in said for name in say.items}
    again = {_key_before(say.items[0]) for say in said if len(say.items) == 1}
    found = [
        item for step in steps if step.state is not StepState.STARTED for item in _read_step(step, again)
    ]
    return [item for item in found if item.id not in seen]


def _is_turn_step(step: Step, phase: str) -> bool:
    return step.key.startswith("turn/") and step.key.count("/") == 2 and step.key.endswith(f"/{phase}")


def _key_before(item: str) -> str:
    """Return the turn that gets one more round because of a reply with nothing but mistakes."""
    parts = item.split("/")
    return f"turn/{int(parts[1]) + 1}/read" if len(parts) == 3 and parts[2] == "read" else ""


def _read_step(step: Step, again: Collection[str]) -> list[NewsItem]:
    parts = step.key.split("/")
    if parts[0] == "inbox":
        return _read_inbox(step)
    if _is_turn_step(step, "read"):
        return _read_skipped(step, is_second=step.key in again)
    if len(parts) == 4 and parts[2] == "command":
        output = CommandOutput.read(step.output)
        text = format_result({**output.flat, "command": f"{parts[1]}.{parts[3]}"})
        return [NewsItem(step.key, "result", text, output.status not in _QUIET)]
    if len(parts) == 5 and parts[4] == "due":
        message = read_as(ReminderInput, step.input).message
        facts = {"status": "due", "reminder": f"{parts[1]}.{parts[3]}", "text": message}
        return [NewsItem(step.key, "result", format_result(facts))]
    return []


def _read_inbox(step: Step) -> list[NewsItem]:
    message = read_as(MessageOutput, step.output)
    if message.kind == "webhook":
        names = ("agent_id", "status", "repo", "branch", "text")
        facts = {name: value for name in names if (value := getattr(message, name))}
        return [] if message.known else [NewsItem(step.key, "result", format_result(facts))]
    return [NewsItem(step.key, "message", message.text)]


def _read_skipped(step: Step, is_second: bool) -> list[NewsItem]:
    """Return what was wrong; a reply without a command that could be run gets one more round for it."""
    reply = read_as(ReplyOutput, step.output)
    if not reply.skipped:
        return []
    lines = [
        format_result({"status": "skipped", "line": entry.line, "reason": entry.reason})
        for entry in reply.skipped[:_SKIPS_TOLD]
    ]
    if (more := reply.skipped_count - len(lines)) > 0:
        lines.append(format_result({"status": "skipped", "reason": f"{more} more lines"}))
    loud = not reply.lines and not is_second
    if loud:
        lines.append(_ONE_MORE)
    return [NewsItem(step.key, "result", "\n".join(lines), loud)]


def format_result(facts: dict[str, Any]) -> str:
    """Return one WEBHOOK_RESULT line; longer texts follow below it, each line marked."""
    names = [*(name for name in _FIRST if name in facts), *(n for n in facts if n not in _FIRST + _DETAILS)]
    pairs = [f"{name}={_one_line(facts[name])}" for name in names if name not in _NOT_TOLD]
    details = [f"| {text}" for name in _DETAILS for text in _tail_lines(facts.get(name))]
    return "\n".join([f"WEBHOOK_RESULT: {', '.join(pairs)}", *details])


def _one_line(value: object) -> str:
    return " ".join(str(value).split())[:500]


def _tail_lines(text: object) -> list[str]:
    return str(text)[-_LONGEST:].splitlines() if text else []
