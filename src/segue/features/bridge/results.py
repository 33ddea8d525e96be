"""Formats what the agent is shown: one WEBHOOK_RESULT line per event, with the details below it.

An agent that cannot remember is also told what was said: the latest turns whole, earlier ones in a line each.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, Literal

from msgspec import Struct

from segue.domain.results import read_as
from segue.domain.run import Step, StepState
from segue.features.bridge.steps import CommandOutput, MessageOutput, ReminderInput, ReplyOutput, SayOutput

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


LIMIT = 64 * 1024
"""Characters of a conversation that the agent is shown."""

_SENTENCE = 300
_REQUEST = 2000


class PastTurn(Struct, frozen=True):
    """One turn: what the user and the bridge said, and what the agent replied."""

    messages: str = ""
    results: str = ""
    reply: str = ""


def write_history(turns: Sequence[PastTurn], limit: int = LIMIT) -> str:
    """Return the conversation; what does not fit is shortened, in whole words, and said to be."""
    whole = [_write_whole(turn) for turn in turns]
    if sum(len(text) + 2 for text in whole) <= limit:
        return "\n\n".join(whole)
    latest: list[str] = []
    room = limit // 2
    for text in reversed(whole):
        if len(text) + 2 > room:
            break
        latest.insert(0, text)
        room -= len(text) + 2
    if not latest:
        latest = [clip_middle(whole[-1], room)]
    earlier = _summarise(turns[: len(turns) - len(latest)], limit // 2)
    return "\n\n".join([*earlier, *latest])


def clip_words(text: str, size: int) -> str:
    """Return the beginning of a text on one line, cut between two words and marked."""
    line = " ".join(text.split())
    if len(line) <= size:
        return line
    return f"{line[:size].rpartition(' ')[0] or line[:size]} …"


def clip_middle(text: str, size: int) -> str:
    """Return the beginning and the end of a text, cut between two words and marked."""
    if len(text) <= size:
        return text
    first, last = text[: size // 2], text[-size // 2 :]
    first = first[: cut.start()] if (cut := re.search(r"\s\S*\Z", first)) else first
    last = last[cut.end() :] if (cut := re.match(r"\S*\s+", last)) else last
    return f"{first}\n[… {len(text) - len(first) - len(last)} characters are left out …]\n{last}"


def _write_whole(turn: PastTurn) -> str:
    parts = {"The user": turn.messages, "The bridge": turn.results, "You": turn.reply}
    return "\n\n".join(f"{who}:\n{text}" for who, text in parts.items() if text)


def _summarise(turns: Sequence[PastTurn], limit: int) -> list[str]:
    """Return a line for each of the earlier turns; of very many, the latest ones."""
    lines = [_summarise_turn(number, turn) for number, turn in enumerate(turns, 1)]
    kept: list[str] = []
    for line in reversed(lines):
        limit -= len(line) + 2
        if limit < 0:
            kept.insert(0, f"Turns 1 to {len(lines) - len(kept)} are left out.")
            break
        kept.insert(0, line)
    return ["Earlier turns, shortened:", *kept] if kept else []


def _summarise_turn(number: int, turn: PastTurn) -> str:
    results = " ".join(line for line in turn.results.splitlines() if not line.startswith("|"))
    parts = {
        "the user": clip_words(turn.messages, _REQUEST),
        "the bridge": clip_words(results, _SENTENCE),
        "you": clip_words(turn.reply, _SENTENCE),
    }
    return f"Turn {number}. " + " ".join(f"{who}: {text}" for who, text in parts.items() if text)
