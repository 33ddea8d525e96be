"""Parses the commands in an agent's reply: one per line, at the start of the line.

A malformed line is skipped, with the reason. Lines in code fences are examples, not commands, unless
configured otherwise: an agent that explains the protocol must not trigger it. Lines that were probably meant
as commands (marked, misspelt, in the middle of a sentence) are never executed either; the agent is shown what
is wrong with them, so that it can write them again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

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

_SHOWN_CHARS = 500
_PARTS = {"SUBAGENT": ("SUB", "AGENT")}
_MARKS = r"[\W_]*+(?:\d{1,3}[.)]\s[\W_]*+)?"
_AFTER = re.compile(r"[*_`\"'\])]*\s*([:：=>])?[*_`\"'\])]*\s*(\S.*)", re.DOTALL)
_LOOSE = {"SUBAGENT": re.compile(r".*(?:repo|prompt)\s*=", re.IGNORECASE), "REMIND": re.compile(r"\S.*,")}
"""What must follow a word of everyday English for it to be a command."""
_STRICT = {
    "LOCAL_ACTION": re.compile(r"[\w.-]+[\s`*\"'\])>|}]*(?:,\s*\w+\s*=|$)"),
    "REMIND": re.compile(r"(?:in|at|on|tomorrow|today|tonight|next|\d)\b.*,\s*\S", re.IGNORECASE),
    "SUBAGENT": _LOOSE["SUBAGENT"],
    "WEBHOOK_RESULT": re.compile(r"agent_id\s*=", re.IGNORECASE),
}
"""What a command consists of, so that it cannot be prose about it."""
_OBJECT = re.compile(r"\{")


def make_finder(keywords: Collection[str]) -> Callable[[str], str]:
    """Return a function that names the command that a line was probably meant as; empty if it was none."""
    spelt = {word: _PARTS.get(word) or tuple(filter(None, word.split("_"))) for word in keywords}
    names = {word: r"[\s\\_-]{0,2}".join(map(re.escape, parts)) for word, parts in spelt.items()}
    start = re.compile(
        _MARKS
        + "(?:"
        + "|".join(f"(?P<{word}>{name}(?:er)?s?)" for word, name in names.items())
        + r")(?![^\W_])",
        re.IGNORECASE,
    )
    inside = re.compile(rf"[^`]*?(?<![\w`\"'])({'|'.join(map(re.escape, keywords))}):\s+(\S.*)", re.DOTALL)

    def find(line: str) -> str:
        line = line[:_SHOWN_CHARS].rstrip()
        if found := start.match(line):
            word = str(found.lastgroup)
            return word if _is_meant(word, found[word], line[found.end() :]) else ""
        if (found := inside.match(line)) and _find_payload(found[1], _STRICT, found[2]):
            return found[1]
        return ""

    return find


def _is_meant(word: str, written: str, rest: str) -> bool:
    found = _AFTER.match(rest)
    if found is None:
        return False
    exact, shouted = written.upper() == word, written.isupper()
    if found[1] and (exact or shouted):
        return word not in _LOOSE or _find_payload(word, _LOOSE, found[2])
    return bool(found[1] or shouted) and _find_payload(word, _STRICT, found[2])


def _find_payload(word: str, needed: dict[str, re.Pattern[str]], payload: str) -> bool:
    return bool(needed.get(word, _OBJECT).match(payload))


FARTHEST = timedelta(days=366)

_AMOUNT = re.compile(
    r"(\d{1,6}(?:\.\d{1,3})?)\s*(weeks?|w|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)"
)
_DURATION = re.compile(rf"(?:in\s+)?{_AMOUNT.pattern}(?:\s*(?:and\s+)?{_AMOUNT.pattern})*", re.ASCII)
_ISO = re.compile(
    r"\d{4}-\d\d-\d\d[t ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?P<zone>.*)", re.ASCII | re.IGNORECASE
)
_DAY = re.compile(
    r"(?P<day>today|tomorrow)(?:\s+at)?\s+(?P<hour>\d{1,2}):(?P<minute>\d\d)(?:\s+(?P<zone>\S+))?",
    re.ASCII | re.IGNORECASE,
)
_OFFSET = re.compile(
    r"(?:utc|gmt)?(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d)", re.ASCII | re.IGNORECASE
)
_SECONDS = {"w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1}


def parse_time(said: str, now: datetime, zone: tzinfo) -> datetime:
    """Return the instant, or raise ValueError with the reason. `zone` is used where the text names none."""
    text = " ".join(said.split())
    if re.fullmatch(r"[\d.,:]+", text):
        raise ValueError("a bare number is not a time: write `in 30m` or an instant with its zone")
    try:
        when = _parse_duration(text.lower(), now) or _parse_instant(text) or _parse_day(text, now, zone)
    except OverflowError:
        when = now + 2 * FARTHEST
    if when is None:
        raise ValueError("not a time: write `in 30m`, `1h30m`, `tomorrow 9:00` or 2030-01-31T09:00:00Z")
    if when <= now:
        raise ValueError("that is in the past")
    if when > now + FARTHEST:
        raise ValueError("that is more than a year away")
    return when


def _parse_duration(text: str, now: datetime) -> datetime | None:
    if not _DURATION.fullmatch(text):
        return None
    parts = _AMOUNT.findall(text)
    return now + timedelta(seconds=sum(float(amount) * _SECONDS[unit[0]] for amount, unit in parts))


def _parse_instant(text: str) -> datetime | None:
    found = _ISO.fullmatch(text)
    if not found:
        return None
    stated = found["zone"].strip()
    if not stated:
        raise ValueError("the instant has no zone: add Z or +02:00")
    moment = text[: found.start("zone")].replace(" ", "T").upper()
    return datetime.fromisoformat(moment).replace(tzinfo=_parse_zone(stated)).astimezone(UTC)


def _parse_day(text: str, now: datetime, zone: tzinfo) -> datetime | None:
    found = _DAY.fullmatch(text)
    if not found:
        return None
    there = _parse_zone(found["zone"]) if found["zone"] else zone
    day = now.astimezone(there).date() + timedelta(days=found["day"].lower() == "tomorrow")
    clock = time(int(found["hour"]), int(found["minute"]))
    return datetime.combine(day, clock, there).astimezone(UTC)


def _parse_zone(stated: str) -> tzinfo:
    if stated.upper() in ("Z", "UTC", "GMT"):
        return UTC
    if found := _OFFSET.fullmatch(stated):
        hours, minutes = int(found["hours"]), int(found["minutes"])
        if hours > 23 or minutes > 59:
            raise ValueError(f"there is no time zone {stated}")
        offset = timedelta(hours=hours, minutes=minutes)
        return timezone(-offset if found["sign"] == "-" else offset)
    try:
        return ZoneInfo(stated)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"there is no time zone {stated}") from None


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
