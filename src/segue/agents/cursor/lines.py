"""Reads the stream-json lines of the Cursor CLI: each becomes an event or a count, all together the outcome.

Nothing in here is fatal: a line of an unknown kind is kept in short and counted, one that is no JSON is
kept as output.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

from segue.agents.cursor.failures import AFTER_RESULT, explained, said_no
from segue.agents.cursor.tools import bounded, clip, table, tool_use
from segue.agents.local import Ended
from segue.domain.event import Event, EventType
from segue.domain.failure import Failure, FailureKind
from segue.domain.job import Mode
from segue.domain.outcome import Outcome, Usage

_TEXT_CHARS = 64 * 1024
_RAW_CHARS = 2000
_PLAIN_LINES = 20
_PLAIN_CHARS = 2000
_CUT_MARK = " bytes cut]"
_TOKENS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_tokens": "cacheReadTokens",
    "cache_write_tokens": "cacheWriteTokens",
}


class CursorLines:
    """Remembers of a launch what its outcome needs, whatever else was printed."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._result: Mapping[str, Any] | None = None
        self._session: str | None = None
        self._model: str | None = None
        self._usage: Usage | None = None
        self._message = ""
        self._plan = ""
        self._deltas = ""
        self._partial = False
        self._thoughts = Counter[str]()
        self._counts = Counter[str]()
        self._plain: deque[str] = deque(maxlen=_PLAIN_LINES)
        self._torn = False
        self._kinds = {
            "system": self._system,
            "user": lambda _line: [],  # the prompt, which is stored elsewhere
            "thinking": self._thinking,
            "assistant": self._assistant,
            "tool_call": self._tool_call,
            "interaction_query": lambda line: [_raw(line)],
            "result": self._finish,
        }

    @property
    def finished(self) -> bool:
        """Whether the result was read: whatever the process does from here on, the work is over."""
        return self._result is not None

    def read(self, text: str) -> list[Event] | None:
        """The events in a line; None when it is plain text."""
        if not text.startswith("{"):
            self._torn = self._torn and not text.strip()
            self._plain.append(text[:_PLAIN_CHARS])
            return None
        line = _parsed(text)
        if line is None:
            return self._broken(text)
        self._torn = False
        self._session = _string(line.get("session_id")) or self._session
        kind = line.get("type")
        read = self._kinds.get(kind) if isinstance(kind, str) else None
        return read(line) if read else self._unknown(line)

    def _broken(self, text: str) -> list[Event] | None:
        self._counts["broken_lines"] += 1
        self._torn = not text.endswith(_CUT_MARK)
        if len(text) <= _RAW_CHARS:
            return None
        return [Event(EventType.AGENT_RAW, {"type": "broken", "text": clip(text, _RAW_CHARS)})]

    def _unknown(self, line: Mapping[str, Any]) -> list[Event]:
        self._counts["unknown_lines"] += 1
        return [*self._flushed(), _raw(line)]

    def _system(self, line: Mapping[str, Any]) -> list[Event]:
        self._model = _string(line.get("model")) or self._model
        return [_raw(line)]

    def _thinking(self, line: Mapping[str, Any]) -> list[Event]:
        """Hundreds of these come: one event per thought says how long it was."""
        if line.get("subtype") != "completed":
            self._thoughts["deltas"] += 1
            self._thoughts["chars"] += len(_string(line.get("text")) or "")
            return []
        data = {"type": "thinking", "deltas": self._thoughts["deltas"], "chars": self._thoughts["chars"]}
        self._thoughts.clear()
        return [Event(EventType.AGENT_RAW, data)]

    def _assistant(self, line: Mapping[str, Any]) -> list[Event]:
        text = _content(line)
        if "timestamp_ms" in line and "model_call_id" not in line:
            self._partial = True
            self._deltas = (self._deltas + text)[-_TEXT_CHARS:]
            return []
        # With partial output the other lines only repeat what the pieces said.
        return self._flushed() if self._partial else self._says(text)

    def _flushed(self) -> list[Event]:
        text, self._deltas = self._deltas, ""
        return self._says(text)

    def _says(self, text: str) -> list[Event]:
        if not text.strip():
            return []
        self._message = text[-_TEXT_CHARS:]
        return [Event(EventType.AGENT_TEXT, {"text": self._message})]

    def _tool_call(self, line: Mapping[str, Any]) -> list[Event]:
        said = self._flushed()
        use = tool_use(table(line.get("tool_call")))
        if use is None:
            return [*said, *self._unknown(line)]
        completed = line.get("subtype") == "completed"
        if use.name == "createPlan":
            self._plan = _string(use.input.get("plan")) or self._plan
        data: dict[str, Any] = {
            "name": use.name,
            "id": clip(_string(line.get("call_id")) or "", 200),
            "state": "completed" if completed else "started",
            "input": bounded(use.input),
        }
        if completed:
            self._counts["tools"] += 1
            self._counts[f"tools_{use.status or 'unknown'}"] += 1
            data |= {"status": use.status, "result": bounded(use.result)}
        return [*said, Event(EventType.AGENT_TOOL, data)]

    def _finish(self, line: Mapping[str, Any]) -> list[Event]:
        said = self._flushed()
        self._result = line
        used = table(line.get("usage"))
        if not used:
            return said
        counted = {ours: _count(used.get(theirs)) for ours, theirs in _TOKENS.items()}
        read = counted["input_tokens"] + counted["cache_read_tokens"] + counted["cache_write_tokens"]
        self._usage = Usage(read, counted["output_tokens"])
        return [*said, Event(EventType.AGENT_USAGE, counted)]

    def facts(self) -> dict[str, Any]:
        """What the last event says beside the outcome."""
        facts: dict[str, Any] = dict(sorted(self._counts.items()))
        rejected = self._counts["tools_rejected"]
        if rejected and self._mode is Mode.EDIT:
            facts["note"] = (
                f"Cursor rejected {rejected} of {self._counts['tools']} uses of tools. It does so with shell "
                "commands and web access unless agents.cursor.force is set or its own permissions allow them."
            )
        return facts

    def outcome(self, ended: Ended, now: float) -> Outcome:
        """How the launch ended, in view of everything that was read."""
        text = self._text()
        return Outcome(
            text=text,
            failure=self._failure(ended, now, text),
            exit_code=ended.exit.code,
            session=self._session,
            model=self._model,
            usage=self._usage,
            duration=ended.exit.duration,
        )

    def _text(self) -> str:
        plan = self._plan if self._mode is Mode.PLAN else ""
        # The result strings all messages together, so it is the last resort.
        return plan or self._message or _string((self._result or {}).get("result")) or ""

    def _failure(self, ended: Ended, now: float, text: str) -> Failure | None:
        if _claims_success(self._result) and (ended.exit.reason in AFTER_RESULT or _clean(ended)):
            return self._empty_handed(text)
        plain = "\n".join(self._plain)
        failure = ended.failure(now, plain)
        if failure is not None:
            return explained(failure, plain) if ended.exit.reason is None else failure
        return self._without_result(ended, plain, now)

    def _empty_handed(self, text: str) -> Failure | None:
        """A success that is none: nothing was said, or nothing was allowed."""
        if self._mode is Mode.EDIT:
            refused = self._counts["tools_rejected"]
            if refused and refused == self._counts["tools"]:
                what = f"Cursor was not allowed any of the {refused} tools it needed"
                return Failure(FailureKind.REFUSED, f"{what}; see agents.cursor.force")
            return None
        if text.strip():
            return None
        what = "plan" if self._mode is Mode.PLAN else "answer"
        return Failure(FailureKind.NO_RESULT, f"Cursor ended well but gave no {what}")

    def _without_result(self, ended: Ended, plain: str, now: float) -> Failure:
        if self._result is not None:
            return said_no(_string(self._result.get("result")) or "", ended.err_tail, now)
        if self._torn:
            return Failure(FailureKind.TRUNCATED, "Cursor's output stops in the middle of a line")
        silent = Failure(
            FailureKind.NO_RESULT, "Cursor ended without a result", ended.err_tail.strip()[-2000:]
        )
        return explained(silent, plain)


def _claims_success(result: Mapping[str, Any] | None) -> bool:
    return result is not None and not result.get("is_error") and result.get("subtype") in (None, "success")


def _clean(ended: Ended) -> bool:
    end = ended.exit
    return end.code == 0 and end.signal is None and end.reason is None


def _parsed(text: str) -> Mapping[str, Any] | None:
    try:
        # Numbers that are none, such as NaN, are refused by databases.
        line = json.loads(text, parse_constant=lambda _name: None)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None


def _content(line: Mapping[str, Any]) -> str:
    content = table(line.get("message")).get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(_string(table(part).get("text")) or "" for part in parts)


def _raw(line: Mapping[str, Any]) -> Event:
    return Event(EventType.AGENT_RAW, {"type": clip(str(line.get("type")), 100), "line": bounded(dict(line))})


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
