"""Reads the lines of the driver (see `acp_child`): each becomes events or a count, all together the outcome.

Words come in pieces; they become one event per message. Nothing in here is fatal: a line of an unknown kind
is kept in short and counted, one that is no JSON is kept as output.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from segue.agents.acp.failures import died, ended_badly, refused, stopped
from segue.agents.acp.profiles import Profile
from segue.agents.cursor.failures import AFTER_RESULT
from segue.agents.cursor.tools import bounded, table
from segue.agents.json_lines import TEXT_CHARS, broken, count, money, parsed, raw, string, torn
from segue.agents.local import Ended
from segue.agents.session_usage import difference
from segue.domain.event import Event, EventType
from segue.domain.failure import Failure, FailureKind
from segue.domain.job import Mode
from segue.domain.outcome import Outcome, Usage

_READING = {"Read", "Search", "Think", "WebSearch", "WebFetch"}
_DATA = ("name", "id", "state", "input", "kind", "title", "status", "result")
_LAST = ("result", "error", "died")
_TOKENS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_tokens": "cachedReadTokens",
    "cache_write_tokens": "cachedWriteTokens",
    "thought_tokens": "thoughtTokens",
}


class AcpLines:
    """Remembers of a launch what its outcome needs, whatever else was printed."""

    def __init__(self, name: str, profile: Profile, mode: Mode, before: Usage | None = None) -> None:
        """`before` is what the session had cost when the launch began: agents report its total."""
        self._setting = f"agents.{name}.permissions"
        self._title, self._profile, self._mode = profile.title or name, profile, mode
        self._before = before or Usage()
        self._last: Mapping[str, Any] | None = None
        self._session: str | None = None
        self._pieces = ""
        self._piece_of: tuple[str, bool] = ("", False)
        self._thoughts = 0
        self._message = ""
        self._proposal = ""
        self._denied = 0
        self._worked = False
        self._torn = False
        self._counts = Counter[str]()
        self._usage: Usage | None = None
        self.total: Usage | None = None
        """What the session has cost in all, as soon as the agent says so."""
        self._kinds: dict[str, Callable[[Mapping[str, Any]], list[Event]]] = {
            "session": self._opened,
            "text": self._said,
            "thought": self._thought,
            "proposal": self._proposed,
            "tool": self._tool,
            "permission": self._permission,
            "usage": self._cost,
            **dict.fromkeys(("start", "plan", "mode", "retry", "wait"), lambda line: [raw(line)]),
            "raw": self._unwrapped,
            **dict.fromkeys(_LAST, self._finish),
        }

    def read(self, text: str) -> list[Event] | None:
        """The events in a line; None when it is plain text."""
        if not text.startswith("{"):
            return None
        line = parsed(text)
        if line is None:
            self._counts["broken_lines"] += 1
            self._torn = torn(text)
            return broken(text)
        self._torn = False
        kind = line.get("type")
        read = self._kinds.get(kind) if isinstance(kind, str) else None
        if kind in ("text", "thought"):
            return self._kinds[kind](line)
        return [*self.pending(), *(read(line) if read else self._unknown(line))]

    def pending(self) -> list[Event]:
        """The message whose pieces have come in so far, and the thoughts before it, as events."""
        events = []
        if self._thoughts:
            events.append(Event(EventType.AGENT_RAW, {"type": "thinking", "chars": self._thoughts}))
        text, inner = self._pieces[-TEXT_CHARS:], self._piece_of[1]
        if text.strip():
            # What a subagent says goes to the agent, not to the user.
            self._message = self._message if inner else text
            events.append(
                Event(EventType.AGENT_TEXT, {"text": text, **({"subagent": True} if inner else {})})
            )
        self._pieces, self._thoughts = "", 0
        return events

    def _unknown(self, line: Mapping[str, Any]) -> list[Event]:
        self._counts["unknown_lines"] += 1
        return [raw(line)]

    def _unwrapped(self, line: Mapping[str, Any]) -> list[Event]:
        """Something of the agent's own that the driver does not know."""
        inner = table(line.get("line"))
        kind = string(inner.get("sessionUpdate")) or string(inner.get("method")) or "raw"
        return self._unknown({"type": kind, **inner})

    def _opened(self, line: Mapping[str, Any]) -> list[Event]:
        self._session = string(line.get("id")) or None
        return [raw(line)]

    def _said(self, line: Mapping[str, Any]) -> list[Event]:
        piece_of = string(line.get("message")), line.get("subagent") is True
        full = len(self._pieces) > TEXT_CHARS
        events = self.pending() if piece_of != self._piece_of or full or self._thoughts else []
        self._piece_of = piece_of
        self._pieces += string(line.get("text"))
        return events

    def _thought(self, line: Mapping[str, Any]) -> list[Event]:
        events = self.pending() if self._pieces else []
        self._thoughts += count(line.get("chars"))
        return events

    def _proposed(self, line: Mapping[str, Any]) -> list[Event]:
        self._proposal = string(line.get("text"))[-TEXT_CHARS:]
        return [Event(EventType.AGENT_TEXT, {"text": self._proposal})] if self._proposal.strip() else []

    def _tool(self, line: Mapping[str, Any]) -> list[Event]:
        state = line.get("state")
        if state == "updated":
            return []
        data = {key: bounded(line[key]) for key in _DATA if key in line}
        if state == "completed":
            status = string(line.get("status"))
            self._counts["tools"] += 1
            self._counts[f"tools_{status}"] += 1
            self._worked = self._worked or (status == "success" and line.get("name") not in _READING)
        return [Event(EventType.AGENT_TOOL, data)]

    def _permission(self, line: Mapping[str, Any]) -> list[Event]:
        if line.get("allowed") is True:
            self._counts["permissions_given"] += 1
        else:
            self._denied += 1
        return [raw(line)]

    def _cost(self, line: Mapping[str, Any]) -> list[Event]:
        cost = table(table(line.get("update")).get("cost"))
        if cost.get("currency") == "USD" and isinstance(cost.get("amount"), int | float):
            self.total = Usage(cost_usd=money(cost["amount"]))
        return []

    def _finish(self, line: Mapping[str, Any]) -> list[Event]:
        self._last = line
        answer = table(line.get("answer"))
        counted = {ours: count(table(answer.get("usage")).get(key)) for ours, key in _TOKENS.items()}
        quota = table(table(table(answer.get("_meta")).get("quota")).get("token_count"))
        for key in ("input_tokens", "output_tokens"):
            counted[key] = counted[key] or count(quota.get(key))
        cost = difference(self.total, self._before).cost_usd if self.total else 0.0
        if not any(counted.values()) and not cost:
            return []
        # What was read from or written to a cache, or thought, is in the total alone with some agents.
        total = count(table(answer.get("usage")).get("totalTokens"))
        read = max(counted["input_tokens"], total - counted["output_tokens"])
        self._usage = Usage(read, counted["output_tokens"], cost)
        return [Event(EventType.AGENT_USAGE, {**counted, "cost_usd": cost})]

    def facts(self) -> dict[str, Any]:
        """What the last event says beside the outcome."""
        facts: dict[str, Any] = dict(sorted(self._counts.items()))
        if self._last is not None and self._last.get("type") == "result":
            facts["stop_reason"] = bounded(self._last.get("stop_reason"))
        if self._denied:
            facts["permission_denials"] = self._denied
        if self._denied and self._mode is Mode.EDIT:
            facts["note"] = (
                f"{self._title} was denied {self._denied} uses of tools; {self._setting} says what it may do."
            )
        return facts

    def outcome(self, ended: Ended, now: float) -> Outcome:
        """How the launch ended, in view of everything that was read."""
        self.pending()
        return Outcome(
            text=self._proposal or self._message,
            failure=self._failure(ended, now),
            exit_code=ended.exit.code,
            session=self._session,
            usage=self._usage,
            duration=ended.exit.duration,
        )

    def _failure(self, ended: Ended, now: float) -> Failure | None:
        end, last = ended.exit, self._last or {}
        kind, login = last.get("type"), self._profile.login
        whole = end.reason is None or end.reason in AFTER_RESULT
        if kind == "result" and whole and (end.reason or end.code == 0):
            return self._turned_out(last, now)
        if kind == "error" and end.reason is None:
            return refused(last, self._title, login, ended.err_tail, now)
        if kind == "died" and end.reason is None:
            return died(last, self._title, login, ended.err_tail, now)
        failure = ended.failure(now, "")
        if failure is not None:
            return failure
        if self._torn:
            return Failure(
                FailureKind.TRUNCATED, f"the output of {self._title} stops in the middle of a line"
            )
        return Failure(
            FailureKind.NO_RESULT, f"{self._title} ended without a result", ended.err_tail.strip()[-2000:]
        )

    def _turned_out(self, last: Mapping[str, Any], now: float) -> Failure | None:
        """A turn that has ended: for a good reason, with words that are no error, and not for nothing."""
        failure = stopped(last.get("stop_reason"), self._denied, self._title, self._setting)
        if failure is not None:
            return failure
        if any(re.match(pattern, self._message.strip()) for pattern in self._profile.error_text):
            return ended_badly(self._message, self._title, self._profile.login, now)
        if self._mode is Mode.EDIT:
            if self._denied and not self._worked:
                what = f"{self._title} was not allowed any of the {self._denied} tools it needed"
                return Failure(FailureKind.REFUSED, f"{what}; see {self._setting}")
            return None
        if (self._proposal or self._message).strip():
            return None
        what = "plan" if self._mode is Mode.PLAN else "answer"
        why = f", after it was denied {self._denied} uses of tools" if self._denied else ""
        return Failure(FailureKind.NO_RESULT, f"{self._title} ended well but gave no {what}{why}")
