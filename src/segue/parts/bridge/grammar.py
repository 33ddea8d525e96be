"""Parses the commands in an agent's reply: one per line, at the start of the line.

A malformed line is skipped, with the reason. Lines in code fences are examples, not commands, unless
configured otherwise: an agent that explains the protocol must not trigger it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from datetime import datetime, tzinfo
from typing import Any

from msgspec import Struct

from segue.parts.bridge.commands import (
    ACTION,
    KEY,
    AgentCommand,
    Extension,
    LocalAction,
    Remind,
    Subagent,
    WebhookResult,
    hash_command,
)
from segue.parts.bridge.nearly import make_finder
from segue.parts.bridge.when import parse_time

LIMIT = 100
"""The default maximum number of commands per reply."""

_KEYWORD = re.compile(r"([A-Z][A-Z0-9_]{1,49}):(.*)", re.DOTALL)
_LINE_END = re.compile(r"\r\n?|\n")
_LAST_REPO = re.compile(r",\s*repo\s*=\s*([^\s,]+)\s*$", re.IGNORECASE)
_LONGEST = 100_000
_SHOWN = 500
_OPTIONAL = ("agent", "model", "branch", "wait")
_WORD = re.compile(r"[A-Za-z0-9][\w./:@+-]{0,199}", re.ASCII)
"""An agent, a model, a branch or an id: never an option, never several words."""

_BOOLEAN = {"true": True, "yes": True, "false": False, "no": False}


class SkippedLine(Struct, frozen=True):
    """A line that looks like a command but is not executed."""

    line: int
    text: str
    reason: str


class ParsedReply(Struct, frozen=True):
    """The commands and skipped lines of a reply, in order."""

    commands: tuple[AgentCommand, ...]
    skipped: tuple[SkippedLine, ...]


def parse_reply(
    text: str,
    *,
    now: datetime,
    zone: tzinfo,
    in_fences: bool = False,
    limit: int = LIMIT,
    keywords: Collection[str] = (),
) -> ParsedReply:
    """Return the commands in a text; `keywords` are extra commands that take a JSON payload."""
    readers = _make_readers(now, zone, keywords)
    found: dict[str, AgentCommand] = {}
    skipped: list[SkippedLine] = []
    for number, line, fenced, meant in _candidates(text, readers):
        try:
            if meant:
                what = f"a command starts its line, in capitals, without any mark before it: {meant}: …"
                raise ValueError(what)  # noqa: TRY301
            command = _parse_line(line, readers, fenced and not in_fences)
        except ValueError as error:
            skipped.append(SkippedLine(number, line[:_SHOWN], str(error)))
            continue
        digest = hash_command(command)
        if digest in found:
            skipped.append(SkippedLine(number, line[:_SHOWN], "it is a repetition in the same reply"))
        elif len(found) >= limit:
            skipped.append(SkippedLine(number, line[:_SHOWN], f"the reply has more than {limit} commands"))
        else:
            found[digest] = command
    return ParsedReply(tuple(found.values()), tuple(skipped))


Reader = Callable[[str], AgentCommand]


def _make_readers(now: datetime, zone: tzinfo, keywords: Collection[str]) -> dict[str, Reader]:
    known: dict[str, Reader] = {
        "SUBAGENT": _read_subagent,
        "LOCAL_ACTION": _read_local_action,
        "REMIND": lambda rest: _read_remind(rest, now, zone),
        "WEBHOOK_RESULT": _read_webhook_result,
    }
    return {**{word: _extension_reader(word) for word in keywords}, **known}


def _candidates(text: str, readers: Collection[str]) -> Iterator[tuple[int, str, bool, str]]:
    """Yield the lines that start with a keyword, with their number and whether they are in a fence.

    A line that does not, but was meant to, comes with the keyword.
    """
    lines = _LINE_END.split(text)
    starts, find = tuple(f"{word}:" for word in readers), make_finder(readers)
    chosen = {n: "" if line.startswith(starts) else find(line) for n, line in enumerate(lines)}
    chosen = {n: meant for n, meant in chosen.items() if meant or lines[n].startswith(starts)}
    fenced = _find_fences(text) if chosen and ("```" in text or "~~~" in text) else frozenset[int]()
    for number, meant in chosen.items():
        yield number + 1, lines[number], number in fenced, meant


def _find_fences(text: str) -> frozenset[int]:
    """Return the lines in code fences, as CommonMark defines them: nested, indented, unclosed."""
    from markdown_it import MarkdownIt

    # A fence inside HTML is still a fence, so HTML is not parsed; inline markup does not matter.
    parser = MarkdownIt("commonmark").disable(["html_block", "inline", "reference"])
    fences = [token.map for token in parser.parse(text) if token.type == "fence" and token.map]
    return frozenset(number for first, end in fences for number in range(first, end))


def _parse_line(line: str, readers: dict[str, Reader], forbidden: bool) -> AgentCommand:
    if forbidden:
        raise ValueError("it is in a code fence")
    if len(line) > _LONGEST:
        raise ValueError(f"it is longer than {_LONGEST} characters")
    found = _KEYWORD.fullmatch(line)
    assert found, "a candidate starts with a keyword"
    return readers[found[1]](found[2].strip())


def _read_subagent(rest: str) -> Subagent:
    values = _split_pairs(rest, ("repo", *_OPTIONAL, "prompt"), last="prompt")
    if "repo" not in values and (found := _LAST_REPO.search(values.get("prompt", ""))):
        values |= {"repo": found[1], "prompt": values["prompt"][: found.start()].strip()}
    for name in ("repo", "prompt"):
        if not values.get(name):
            raise ValueError(f"{name} is missing (the prompt takes the rest of the line)")
    options = {
        name: _check_word(name, values[name]) for name in ("agent", "model", "branch") if name in values
    }
    return Subagent(values["repo"], values["prompt"], **options, wait=_read_wait(values.get("wait")))


def _read_wait(value: str | None) -> bool | None:
    if value is None:
        return None
    if value.lower() not in _BOOLEAN:
        raise ValueError("wait must be true or false")
    return _BOOLEAN[value.lower()]


def _read_local_action(rest: str) -> LocalAction:
    action, comma, more = rest.partition(",")
    if not ACTION.fullmatch(action.strip()):
        raise ValueError("the action is missing or its name is not valid")
    parameters = _split_pairs(more.strip(), None) if comma else {}
    return LocalAction(action.strip(), parameters)


def _read_remind(rest: str, now: datetime, zone: tzinfo) -> Remind:
    said, comma, message = (part.strip() for part in rest.partition(","))
    if not comma or not message:
        raise ValueError("the message is missing: REMIND: <when>, <message>")
    return Remind(parse_time(said, now, zone), message, said)


def _read_webhook_result(rest: str) -> WebhookResult:
    values = _split_pairs(rest, ("agent_id", "status"))
    if values.keys() != {"agent_id", "status"}:
        raise ValueError("agent_id and status are needed")
    return WebhookResult(_check_word("agent_id", values["agent_id"]), _check_word("status", values["status"]))


def _extension_reader(keyword: str) -> Reader:
    def read(rest: str) -> Extension:
        try:
            payload: Any = json.loads(rest, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            raise ValueError("the payload is not valid JSON") from None
        if not isinstance(payload, dict):
            raise ValueError("the payload is not a JSON object")  # noqa: TRY004 - a wrong text
        return Extension(keyword, payload)

    return read


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _split_pairs(rest: str, known: Collection[str] | None, last: str | None = None) -> dict[str, str]:
    """Split `key=value, key=value`; keys in any case, values trimmed. `last` takes the rest of the line.

    A comma ends a value only before a key, so that values may contain commas.
    """
    values: dict[str, str] = {}
    while rest:
        key, equals, more = rest.partition("=")
        name = key.strip().lower()
        if not equals or not KEY.fullmatch(name) or (known is not None and name not in known):
            names = f" (known keys: {', '.join(known)})" if known else ""
            raise ValueError(f"{key.strip()[:50]!r} is not a key{names}")
        if name in values:
            raise ValueError(f"{name} is given twice")
        if name == last:
            return {**values, name: more.strip()}
        end = _find_next_key(more, known)
        values[name] = (more if end is None else more[:end]).strip()
        rest = "" if end is None else more[end + 1 :].strip()
    return values


def _find_next_key(text: str, known: Collection[str] | None) -> int | None:
    """Return the position of the comma before the next key."""
    for found in re.finditer(r",\s*([A-Za-z_][A-Za-z0-9_]{0,49})\s*=", text):
        if known is None or found[1].lower() in known:
            return found.start()
    return None


def _check_word(name: str, value: str) -> str:
    if not _WORD.fullmatch(value) or ".." in value:
        raise ValueError(f"the value of {name} is not valid")
    return value
