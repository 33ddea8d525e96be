"""Parses the commands in an agent's reply: one per line, at the start of the line.

A malformed line is skipped, with the reason, and so is a command with a mark or blanks before it: the agent
is shown what is wrong, so that it can write it again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from segue.features.bridge.commands import (
    ACTION,
    KEY,
    AgentCommand,
    LocalAction,
    Remind,
    Subagent,
    WebhookResult,
    hash_command,
)

FARTHEST = timedelta(days=366)

_AMOUNT = re.compile(
    r"(\d{1,6}(?:\.\d{1,3})?)\s*(weeks?|w|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)"
)
_DURATION = re.compile(rf"(?:in\s+)?{_AMOUNT.pattern}(?:\s*(?:and\s+)?{_AMOUNT.pattern})*", re.ASCII)
_SECONDS = {"w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1}


def parse_time(said: str, now: datetime) -> datetime:
    """Return the instant, or raise ValueError with the reason."""
    text = " ".join(said.split())
    try:
        when = _parse_duration(text.lower(), now) or _parse_instant(text)
    except OverflowError:
        when = now + 2 * FARTHEST
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


def _parse_instant(text: str) -> datetime:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("not a time: write `in 30m`, `1h30m` or 2030-01-31T09:00:00Z") from None
    if when.tzinfo is None:
        raise ValueError("the instant has no zone: add Z or +02:00")
    return when.astimezone(UTC)


LIMIT = 100
"""The default maximum number of commands per reply."""

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


def parse_reply(text: str, *, now: datetime, limit: int = LIMIT) -> ParsedReply:
    """Return the commands in a text."""
    found: dict[str, AgentCommand] = {}
    skipped: list[SkippedLine] = []
    for number, line, keyword, rest in _candidates(text):
        try:
            command = _parse_line(line, keyword, rest, now)
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


def _candidates(text: str) -> Iterator[tuple[int, str, str, str]]:
    """Yield the lines with nothing but marks before a keyword: number, line, keyword and the rest."""
    for number, line in enumerate(_LINE_END.split(text), 1):
        if found := _COMMAND.match(line):
            yield number, line, found[1], line[found.end() :]


def _parse_line(line: str, keyword: str, rest: str, now: datetime) -> AgentCommand:
    if not line.startswith(f"{keyword}:"):
        raise ValueError(f"a command is at the start of its line, without any mark before it: {keyword}: …")
    if len(line) > _LONGEST:
        raise ValueError(f"it is longer than {_LONGEST} characters")
    return _READERS[keyword](rest.strip(), now)


def _read_subagent(rest: str, _now: datetime) -> Subagent:
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


def _read_local_action(rest: str, _now: datetime) -> LocalAction:
    action, comma, more = rest.partition(",")
    if not ACTION.fullmatch(action.strip()):
        raise ValueError("the action is missing or its name is not valid")
    parameters = _split_pairs(more.strip(), None) if comma else {}
    return LocalAction(action.strip(), parameters)


def _read_remind(rest: str, now: datetime) -> Remind:
    said, comma, message = (part.strip() for part in rest.partition(","))
    if not comma or not message:
        raise ValueError("the message is missing: REMIND: <when>, <message>")
    return Remind(parse_time(said, now), message, said)


def _read_webhook_result(rest: str, _now: datetime) -> WebhookResult:
    values = _split_pairs(rest, ("agent_id", "status"))
    if values.keys() != {"agent_id", "status"}:
        raise ValueError("agent_id and status are needed")
    return WebhookResult(_check_word("agent_id", values["agent_id"]), _check_word("status", values["status"]))


_READERS: dict[str, Callable[[str, datetime], AgentCommand]] = {
    "SUBAGENT": _read_subagent,
    "LOCAL_ACTION": _read_local_action,
    "REMIND": _read_remind,
    "WEBHOOK_RESULT": _read_webhook_result,
}
_COMMAND = re.compile(rf"[\W\d_]{{0,20}}?({'|'.join(_READERS)}):")


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
