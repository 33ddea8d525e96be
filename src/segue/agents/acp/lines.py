"""Read the lines of the driver (see `child`): each becomes events or a count, all together the outcome.

Text comes in pieces; they become one event per message.
"""

from __future__ import annotations

import re
from typing import Any

from segue.agents.acp.client import AUTH_REQUIRED, INTERNAL_ERROR
from segue.agents.acp.profiles import Profile
from segue.agents.classify import classify, plain
from segue.agents.limits import read_signal, reset_time
from segue.agents.local.failures import FailureTable
from segue.agents.local.launch import ProcessEnd, SessionUsage
from segue.agents.local.lines import LineReader, raw_event, read_id, thinking_event
from segue.agents.local.speech import Hear
from segue.agents.local.values import TEXT_CHARS, Json, as_count, as_money, as_table, as_text, shrink
from segue.domain.events import AgentTool, AgentUsage, Event, WordsDelivered
from segue.domain.job import Mode
from segue.domain.outcome import Failure, FailureKind, Outcome, Usage
from segue.domain.text import AnswerText

_STATUS = re.compile(r"(?:^|\b(?:status|code|error|api)\W{1,6}(?:code\W{1,3})?)([45]\d\d)\b", re.IGNORECASE)
_STAGES = {
    "start": "it could not be started",
    "initialize": "it does not speak the protocol as expected",
    "authenticate": "it could not be authenticated",
    "session": "it does not accept the session",
    "mode": "it does not accept the mode",
    "model": "it does not accept the model",
}
_STOPS = {
    "max_tokens": (FailureKind.TRUNCATED, "its answer was cut at the model's longest output"),
    "max_turn_requests": (FailureKind.MAX_TURNS, "it used all the turns it may take"),
    "refusal": (FailureKind.REFUSED, "the model refused to continue"),
    "cancelled": (FailureKind.INTERRUPTED, "its turn was cancelled"),
}


def read_error(table: FailureTable, line: Json, err_tail: str, now: float) -> Failure:
    """Return what an error means that was the answer to a request."""
    stage, said = as_text(line.get("stage")), _read_message(line)
    signal = read_signal({key: line.get(key) for key in ("code", "message", "data")}, now)
    kind, until = _judge(signal.status or line.get("code"), said, now)
    if signal.until is not None and kind in (FailureKind.UNKNOWN, FailureKind.OUTAGE):
        kind = FailureKind.RATE_LIMIT if signal.status in (0, 429) else kind
    until = signal.until or until
    if stage == "authenticate":
        kind = FailureKind.AUTH
    if kind is FailureKind.UNKNOWN and as_table(line.get("data")).get("retried"):
        kind = FailureKind.OUTAGE  # agents retry when a service is down, not when it says no
    if kind is FailureKind.UNKNOWN and stage in _STAGES:
        broke = stage in ("initialize", "session") and line.get("code") == INTERNAL_ERROR
        kind = FailureKind.CRASH if broke else FailureKind.NOT_STARTED
    where = f"{_STAGES[stage]}: " if stage in _STAGES else ""
    return table.fail(kind, f"{table.title}: {where}{said}", err_tail, until)


def read_death(table: FailureTable, line: Json, err_tail: str, now: float) -> Failure:
    """Return what it means that the agent is gone, or never answered."""
    stderr, said = plain(err_tail).strip(), as_text(line.get("message"))
    known = classify(1, None, None, "", "", err_tail, now)
    if known is not None and known.kind is not FailureKind.CRASH:
        return table.fail(known.kind, f"{table.title}: {known.message}", err_tail, known.until)
    code = line.get("exit_code")
    how = f" and ended with {code}" if isinstance(code, int) else ""
    last = f": {stderr.splitlines()[-1].strip()}" if stderr else ""
    message = f"{table.title}: {said}{how}, while it was asked for: {line.get('stage')}{last}"
    kind = FailureKind.TRUNCATED if line.get("stage") == "prompt" else FailureKind.CRASH
    kind = FailureKind.HANG if said.startswith("no answer") else kind
    return table.fail(kind, message, err_tail)


def read_stop(title: str, reason: Any, denied: int, setting: str) -> Failure | None:
    """Return what the reason means for which a turn ended; None if it is a good one."""
    if reason == "end_turn":
        return None
    if reason == "cancelled" and denied:
        message = f"{title}: its turn ended when it was denied a tool; see {setting}"
        return Failure(FailureKind.REFUSED, message)
    unknown = FailureKind.UNKNOWN, f"its turn ended for an unknown reason: {str(reason)[:100]}"
    kind, message = _STOPS.get(reason, unknown) if isinstance(reason, str) else unknown
    return Failure(kind, f"{title}: {message}")


def _read_message(line: Json) -> str:
    """Return the message with its details: some agents only say `Internal error` in the message."""
    data = line.get("data")
    more = as_text(data)
    for key in ("details", "message", "error", "reason", "errorName"):
        inner = as_table(as_table(data).get("error")).get("message")
        more = more or as_text(as_table(data).get(key)) or as_text(inner)
    said = as_text(line.get("message"))
    return f"{said}: {more}" if more and more not in said else said


def _judge(code: Any, said: str, now: float) -> tuple[FailureKind, float | None]:
    """Judge by the words, because they say more, or by the code, which may be that of the service."""
    known = classify(1, None, None, "", said, "", now)
    if known is not None and known.kind is not FailureKind.CRASH:
        return known.kind, known.until
    found = _STATUS.search(said)
    status = int(found[1]) if found else 0
    if isinstance(code, int) and 400 <= code < 600:
        status = code
    if code == AUTH_REQUIRED or status in (401, 403) or "AuthError" in said:
        return FailureKind.AUTH, None
    if status == 402:
        return FailureKind.USAGE_LIMIT, reset_time(said, now)
    if status == 429:
        return FailureKind.RATE_LIMIT, reset_time(said, now)
    if status in _BY_STATUS:
        return _BY_STATUS[status], None
    return (FailureKind.OUTAGE if status >= 500 else FailureKind.UNKNOWN), None


_BY_STATUS = {404: FailureKind.NOT_STARTED, 413: FailureKind.CONTEXT}
_READING = {"Read", "Search", "Think", "WebSearch", "WebFetch"}
_DETAILS = ("kind", "title")
RESULT = '"type": "result"'
"""What only a line of the driver with a result has: inside of a text the quotes would be escaped."""
_ENDS = {"start", "said", "session", "tool", "result", "error", "died"}
"""Lines that end a message. All others may come in the middle of one, which must not lose its beginning."""
_TOKENS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_tokens": "cachedReadTokens",
    "cache_write_tokens": "cachedWriteTokens",
    "reasoning_tokens": "thoughtTokens",
}


class AcpLines:
    """Remembers what the outcome of a launch needs."""

    def __init__(
        self,
        name: str,
        profile: Profile,
        mode: Mode,
        usage: SessionUsage | None = None,
        hear: Hear | None = None,
    ) -> None:
        self._setting = f"agents.{name}.permissions"
        self._failures = FailureTable(profile.title or name, profile.login)
        self._error_text, self._mode = profile.error_text, mode
        self._cost = usage or SessionUsage()
        self._counted = dict.fromkeys(_TOKENS, 0)
        self._last: Json = {}
        self._before: list[Event] = []
        self._pieces = AnswerText()
        self._lost = False
        self._piece_of: tuple[str, bool] = ("", False)
        self._thoughts = ""
        self._denied = 0
        self._worked = False
        self.rest: list[Event] = []
        """The events that `outcome` found in an unfinished message."""
        self._lines = LineReader(
            {
                "session": self._read_session,
                "text": self._read_text,
                "thought": self._read_thought,
                "tool": self._read_tool,
                "permission": self._read_permission,
                "usage": self._read_cost,
                "raw": self._read_raw,
                "lost": self._read_lost,
                "said": lambda line: [WordsDelivered((as_count(line.get("number")),), "session")],
                **dict.fromkeys(("start", "plan", "mode", "retry", "wait"), lambda line: [raw_event(line)]),
                **dict.fromkeys(("result", "error", "died"), self._read_last),
            },
            self._note_kind,
            hear,
        )

    def read(self, text: str) -> list[Event] | None:
        """Return the events in a line; None if it is plain text."""
        self._before = []
        events = self._lines.read(text)
        return events if events is None else [*self._before, *events]

    def _note_kind(self, line: Json) -> None:
        """End the message whose pieces came in so far, unless more of it may follow."""
        kind = line.get("type")
        if isinstance(kind, str) and kind in _ENDS and line.get("state") != "updated":
            self._before = self._flush()

    def _flush(self) -> list[Event]:
        """Return the thoughts and the message whose pieces came in so far."""
        return [*self._flush_thought(), *self._lines.say(self._pieces.take(), self._piece_of[1])]

    def _flush_thought(self) -> list[Event]:
        text, self._thoughts = self._thoughts, ""
        return [thinking_event(text)] if text else []

    def _read_raw(self, line: Json) -> list[Event]:
        """Read a message of the agent's own that the driver does not know."""
        inner = as_table(line.get("line"))
        kind = as_text(inner.get("sessionUpdate")) or as_text(inner.get("method")) or "raw"
        return self._lines.keep_unknown({"type": kind, **inner})

    def _read_session(self, line: Json) -> list[Event]:
        self._lines.session = as_text(line.get("id")) or None
        return [raw_event(line)]

    def _read_text(self, line: Json) -> list[Event]:
        piece_of = as_text(line.get("message")), line.get("subagent") is True
        events = self._flush() if piece_of != self._piece_of else self._flush_thought()
        self._piece_of = piece_of
        text = as_text(line.get("text"))
        self._pieces.add(text)
        if not piece_of[1]:
            self._lines.speech.add(text)
        return events

    def _read_thought(self, line: Json) -> list[Event]:
        events = self._flush_thought() if len(self._thoughts) > TEXT_CHARS else []
        self._thoughts += as_text(line.get("text"))
        return events

    def _read_lost(self, line: Json) -> list[Event]:
        """Read that a message of the agent was too long for the driver; a piece of its answer may be gone."""
        self._lost = True
        return [raw_event(line)]

    def _read_tool(self, line: Json) -> list[Event]:
        state = line.get("state")
        if state == "updated":
            return []
        if state == "completed":
            status = as_text(line.get("status"))
            self._lines.counts["tools"] += 1
            self._lines.counts[f"tools_{status}"] += 1
            self._worked = self._worked or (status == "success" and line.get("name") not in _READING)
        return [
            AgentTool(
                as_text(line.get("name")),
                shrink(line.get("input")),
                read_id(line.get("id")),
                as_text(state),
                as_text(line.get("status")),
                shrink(line.get("result")),
                {key: shrink(line[key]) for key in _DETAILS if line.get(key)},
            )
        ]

    def _read_permission(self, line: Json) -> list[Event]:
        if line.get("allowed") is True:
            self._lines.counts["permissions_given"] += 1
        else:
            self._denied += 1
        return [raw_event(line)]

    def _read_cost(self, line: Json) -> list[Event]:
        update = as_table(line.get("update"))
        for key in self._counted:  # what one request to the model took; an agent sends one for each
            self._counted[key] += as_count(as_table(update.get("tokens")).get(_TOKENS[key]))
        cost = as_table(update.get("cost"))
        if cost.get("currency") == "USD" and isinstance(cost.get("amount"), int | float):
            self._cost.total = Usage(cost_usd=as_money(cost["amount"]))
        spent = self._cost.spent()
        money = spent.cost_usd if spent is not None else None
        if not (money or any(self._counted.values())):
            return []
        return [AgentUsage(**self._counted, cost_usd=money, live=True)]

    def _read_last(self, line: Json) -> list[Event]:
        self._last = line
        answer = as_table(line.get("answer"))
        used = as_table(answer.get("usage"))
        counted: dict[str, Any] = {ours: as_count(used.get(key)) for ours, key in _TOKENS.items()}
        quota = as_table(as_table(as_table(answer.get("_meta")).get("quota")).get("token_count"))
        for key in ("input_tokens", "output_tokens"):
            counted[key] = counted[key] or as_count(quota.get(key))
        counted = counted if any(counted.values()) else self._counted
        spent = self._cost.spent()
        cost = spent.cost_usd if spent else None
        if not any(counted.values()) and not cost:
            return []
        # Some agents count thoughts and the cache in the total only.
        read = max(counted["input_tokens"], as_count(used.get("totalTokens")) - counted["output_tokens"])
        has_cache = counted["cache_read_tokens"] or counted["cache_write_tokens"]
        cached = counted["cache_read_tokens"] if has_cache else None
        self._lines.usage = Usage(read, counted["output_tokens"], cost, cached)
        return [AgentUsage(**counted, cost_usd=cost)]

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        if self._last.get("type") == "result":
            facts["stop_reason"] = shrink(self._last.get("stop_reason"))
        if self._denied:
            facts["permission_denials"] = self._denied
        if self._denied and self._mode is Mode.EDIT:
            title = self._failures.title
            facts["note"] = (
                f"{title} was denied {self._denied} uses of tools; {self._setting} says what it may do."
            )
        return facts

    def outcome(self, end: ProcessEnd, now: float) -> Outcome:
        """Return how the launch ended, judging by everything that was read."""
        self.rest = self._flush()
        self._cost.store(self._lines.session)
        text = self._lines.message
        self._lines.lost = self._lines.lost or self._lost
        return self._lines.outcome(end, text, self._failure(end, now), self._facts())

    def _failure(self, end: ProcessEnd, now: float) -> Failure | None:
        kind, failures = self._last.get("type"), self._failures
        if kind == "result" and end.keeps_result:
            return self._judge_turn(now)
        if kind == "error" and end.exit.reason is None:
            return read_error(failures, self._last, end.err_tail, now)
        if kind == "died" and end.exit.reason is None:
            return read_death(failures, self._last, end.err_tail, now)
        return failures.judge_end(end, self._lines, now)

    def _judge_turn(self, now: float) -> Failure | None:
        """Return why a turn failed that has ended: its reason, an error in its words, or nothing done."""
        message = self._lines.message
        reason, title = self._last.get("stop_reason"), self._failures.title
        failure = read_stop(title, reason, self._denied, self._setting)
        if failure is not None:
            return failure
        if any(re.match(pattern, message.strip()) for pattern in self._error_text):
            kind, until = _judge(None, message, now)
            return self._failures.fail(kind, f"{title}: {message.strip()}", "", until)
        return self._failures.judge_success(self._mode, message, self._denied, self._worked, self._setting)
