"""Reads the commands in what an agent says: one per line, at the start of the line, or not at all.

A line that is malformed is skipped with its reason. Lines inside code fences are examples, not commands,
unless configured otherwise: an agent that explains the protocol must not set it off.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from segue.bridge.commands import (
    ACTION,
    KEY,
    Command,
    Extension,
    LocalAction,
    Remind,
    Subagent,
    WebhookResult,
    identity,
)
from segue.bridge.when import instant

LIMIT = 100
"""How many commands of one reply are read, if nobody says otherwise."""

_KEYWORD = re.compile(r"([A-Z][A-Z0-9_]{1,49}):(.*)", re.DOTALL)
_LINE_END = re.compile(r"\r\n?|\n")
_LAST_REPO = re.compile(r",\s*repo\s*=\s*([^\s,]+)\s*$", re.IGNORECASE)
_LONGEST = 100_000
_SHOWN = 500
_OPTIONAL = ("agent", "model", "branch", "wait")
_WORD = re.compile(r"[A-Za-z0-9][\w./:@+-]{0,199}", re.ASCII)
"""What an agent, a model, a branch or an id may look like: never an option, never several words."""

_BOOLEAN = {"true": True, "yes": True, "false": False, "no": False}


@dataclass(frozen=True, slots=True)
class Skipped:
    """A line that looks like a command and is not carried out."""

    line: int
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What was found in a reply, in its order."""

    commands: tuple[Command, ...]
    skipped: tuple[Skipped, ...]


def read(
    text: str,
    *,
    now: datetime,
    zone: tzinfo,
    in_fences: bool = False,
    limit: int = LIMIT,
    keywords: Collection[str] = (),
) -> Reading:
    """The commands in a text; `keywords` are further ones that take a JSON payload."""
    readers = _readers(now, zone, keywords)
    found: dict[str, Command] = {}
    skipped: list[Skipped] = []
    for number, line, fenced in _candidates(text, readers):
        try:
            command = _command(line, readers, fenced and not in_fences)
        except ValueError as error:
            skipped.append(Skipped(number, line[:_SHOWN], str(error)))
            continue
        if identity(command) in found:
            skipped.append(Skipped(number, line[:_SHOWN], "it was given before in the same reply"))
        elif len(found) >= limit:
            skipped.append(Skipped(number, line[:_SHOWN], f"the reply holds more than {limit} commands"))
        else:
            found[identity(command)] = command
    return Reading(tuple(found.values()), tuple(skipped))


Reader = Callable[[str], Command]


def _readers(now: datetime, zone: tzinfo, keywords: Collection[str]) -> dict[str, Reader]:
    known: dict[str, Reader] = {
        "SUBAGENT": _subagent,
        "LOCAL_ACTION": _local_action,
        "REMIND": lambda rest: _remind(rest, now, zone),
        "WEBHOOK_RESULT": _webhook_result,
    }
    return {**{word: _extension(word) for word in keywords}, **known}


def _candidates(text: str, readers: Collection[str]) -> Iterator[tuple[int, str, bool]]:
    """The lines that start with a keyword, with their numbers and whether they stand in a fence."""
    lines = _LINE_END.split(text)
    starts = tuple(f"{word}:" for word in readers)
    chosen = [number for number, line in enumerate(lines) if line.startswith(starts)]
    fenced = _fenced(text) if chosen and ("```" in text or "~~~" in text) else frozenset[int]()
    for number in chosen:
        yield number + 1, lines[number], number in fenced


def _fenced(text: str) -> frozenset[int]:
    """The lines of every code fence, as CommonMark sees them: nested, indented, unclosed."""
    from markdown_it import MarkdownIt

    # HTML is prose to us, so that a fence inside it is still a fence; inline text does not matter.
    parser = MarkdownIt("commonmark").disable(["html_block", "inline", "reference"])
    fences = [token.map for token in parser.parse(text) if token.type == "fence" and token.map]
    return frozenset(number for first, end in fences for number in range(first, end))


def _command(line: str, readers: dict[str, Reader], forbidden: bool) -> Command:
    if forbidden:
        raise ValueError("it stands in a code fence")
    if len(line) > _LONGEST:
        raise ValueError(f"it is longer than {_LONGEST} characters")
    found = _KEYWORD.fullmatch(line)
    assert found, "a candidate starts with a keyword"
    return readers[found[1]](found[2].strip())


def _subagent(rest: str) -> Subagent:
    values = _pairs(rest, ("repo", *_OPTIONAL, "prompt"), last="prompt")
    if "repo" not in values and (found := _LAST_REPO.search(values.get("prompt", ""))):
        values |= {"repo": found[1], "prompt": values["prompt"][: found.start()].strip()}
    for name in ("repo", "prompt"):
        if not values.get(name):
            raise ValueError(f"{name} is missing (the prompt takes the rest of the line)")
    options = {name: _word(name, values[name]) for name in ("agent", "model", "branch") if name in values}
    return Subagent(values["repo"], values["prompt"], **options, wait=_wait(values.get("wait")))


def _wait(value: str | None) -> bool | None:
    if value is None:
        return None
    if value.lower() not in _BOOLEAN:
        raise ValueError("wait is true or false")
    return _BOOLEAN[value.lower()]


def _local_action(rest: str) -> LocalAction:
    action, comma, more = rest.partition(",")
    if not ACTION.fullmatch(action.strip()):
        raise ValueError("the action is missing or has no valid name")
    parameters = _pairs(more.strip(), None) if comma else {}
    return LocalAction(action.strip(), parameters)


def _remind(rest: str, now: datetime, zone: tzinfo) -> Remind:
    said, comma, message = (part.strip() for part in rest.partition(","))
    if not comma or not message:
        raise ValueError("the message is missing: REMIND: <when>, <message>")
    return Remind(instant(said, now, zone), message, said)


def _webhook_result(rest: str) -> WebhookResult:
    values = _pairs(rest, ("agent_id", "status"))
    if values.keys() != {"agent_id", "status"}:
        raise ValueError("agent_id and status are needed")
    return WebhookResult(_word("agent_id", values["agent_id"]), _word("status", values["status"]))


def _extension(keyword: str) -> Reader:
    def reader(rest: str) -> Extension:
        try:
            payload: Any = json.loads(rest, parse_constant=_no_number)
        except (ValueError, RecursionError):
            raise ValueError("the payload is not valid JSON") from None
        if not isinstance(payload, dict):
            raise ValueError("the payload is not a JSON object")  # noqa: TRY004 - a wrong text
        return Extension(keyword, payload)

    return reader


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _pairs(rest: str, known: Collection[str] | None, last: str | None = None) -> dict[str, str]:
    """`key=value, key=value`; keys in any case, values trimmed. The value of `last` takes all that follows.

    A comma ends a value only where a key follows it, so that values may hold commas.
    """
    values: dict[str, str] = {}
    while rest:
        key, equals, more = rest.partition("=")
        name = key.strip().lower()
        if not equals or not KEY.fullmatch(name) or (known is not None and name not in known):
            raise ValueError(
                f"{key.strip()[:50]!r} is no key" + (f" out of {', '.join(known)}" if known else "")
            )
        if name in values:
            raise ValueError(f"{name} is given twice")
        if name == last:
            return {**values, name: more.strip()}
        end = _next_key(more, known)
        values[name] = (more if end is None else more[:end]).strip()
        rest = "" if end is None else more[end + 1 :].strip()
    return values


def _next_key(text: str, known: Collection[str] | None) -> int | None:
    """Where the comma before the next key stands."""
    for found in re.finditer(r",\s*([A-Za-z_][A-Za-z0-9_]{0,49})\s*=", text):
        if known is None or found[1].lower() in known:
            return found.start()
    return None


def _word(name: str, value: str) -> str:
    if not _WORD.fullmatch(value) or ".." in value:
        raise ValueError(f"{name} has no valid value")
    return value
