"""Reads the JSON lines of `codex exec`: each becomes events or a count, all together the outcome.

Nothing in here is fatal: a line of an unknown kind is kept in short and counted, one that is no JSON is
kept as output.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any

from segue.agents.codex.failures import explained, failed
from segue.agents.cursor.failures import AFTER_RESULT
from segue.agents.cursor.tools import bounded, clip, table
from segue.agents.json_lines import TEXT_CHARS, broken, count, parsed, raw, string, torn
from segue.agents.local import Ended
from segue.agents.session_usage import difference
from segue.domain.event import Event, EventType
from segue.domain.failure import Failure, FailureKind
from segue.domain.job import Mode
from segue.domain.outcome import Outcome, Usage

_PLAIN_LINES = 20
_PLAIN_CHARS = 2000
_STATES = {"completed": "success", "failed": "failure", "declined": "rejected"}
_USAGE = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens")


class CodexLines:
    """Remembers of a launch what its outcome needs, whatever else was printed."""

    def __init__(self, mode: Mode, before: Usage | None = None) -> None:
        """`before` is what the thread had used when the launch began: Codex reports its total."""
        self._mode = mode
        self._before = before or Usage()
        self._ended: str | None = None
        self._problem = ""
        self._session: str | None = None
        self._message = ""
        self._counts = Counter[str]()
        self._plain: deque[str] = deque(maxlen=_PLAIN_LINES)
        self._torn = False
        self.total: Usage | None = None
        """What the thread has used in all, as soon as a turn says so."""
        self.offline_since: float | None = None
        """When Codex began to wait for its service, on the monotonic clock; it would do so for ever."""
        self._kinds: dict[str, Callable[[Mapping[str, Any]], list[Event]]] = {
            "thread.started": self._thread,
            "turn.started": lambda _line: [],
            "turn.completed": self._completed,
            "turn.failed": self._failed,
            "item.started": lambda line: self._item(line, "started"),
            "item.updated": lambda _line: [],  # what is completed is told in full
            "item.completed": lambda line: self._item(line, "completed"),
            "error": self._error,
        }

    def read(self, text: str) -> list[Event] | None:
        """The events in a line; None when it is plain text."""
        if not text.startswith("{"):
            self._torn = self._torn and not text.strip()
            self._plain.append(text[:_PLAIN_CHARS])
            return None
        line = parsed(text)
        if line is None:
            self._counts["broken_lines"] += 1
            self._torn = torn(text)
            return broken(text)
        self._torn = False
        kind = line.get("type")
        self.offline_since = self.offline_since if kind == "error" else None
        read = self._kinds.get(kind) if isinstance(kind, str) else None
        return read(line) if read else self._unknown(line)

    def _unknown(self, line: Mapping[str, Any]) -> list[Event]:
        self._counts["unknown_lines"] += 1
        return [raw(line)]

    def _thread(self, line: Mapping[str, Any]) -> list[Event]:
        self._session = string(line.get("thread_id")) or self._session
        return [raw(line)]

    def _completed(self, line: Mapping[str, Any]) -> list[Event]:
        self._ended = "completed"
        used = table(line.get("usage"))
        if not used:
            return []
        counted = {name: count(used.get(name)) for name in _USAGE}
        self.total = Usage(counted["input_tokens"], counted["output_tokens"])
        return [Event(EventType.AGENT_USAGE, counted)]

    def _failed(self, line: Mapping[str, Any]) -> list[Event]:
        self._ended = "failed"
        self._problem = string(table(line.get("error")).get("message")) or self._problem
        return [raw(line)]

    def _error(self, line: Mapping[str, Any]) -> list[Event]:
        """Most are followed by another try."""
        self._problem = string(line.get("message")) or self._problem
        if self._problem.startswith("Reconnecting"):
            self._counts["reconnects"] += 1
            self.offline_since = self.offline_since or time.monotonic()
        return [raw(line)]

    def _item(self, line: Mapping[str, Any], state: str) -> list[Event]:
        item = table(line.get("item"))
        kind, done = string(item.get("type")), state == "completed"
        if kind == "agent_message":
            return self._says(string(item.get("text"))) if done else []
        if kind == "reasoning":
            chars = len(string(item.get("text")))
            return [Event(EventType.AGENT_RAW, {"type": "thinking", "chars": chars})] if done else []
        if kind in ("todo_list", "error"):
            return [raw({**item, "type": kind})] if done else []
        use = _tool(kind, item)
        return self._unknown(line) if use is None else [self._used(item, use, state)]

    def _says(self, text: str) -> list[Event]:
        if not text.strip():
            return []
        self._message = text[-TEXT_CHARS:]
        return [Event(EventType.AGENT_TEXT, {"text": self._message})]

    def _used(self, item: Mapping[str, Any], use: tuple[str, Any, Any], state: str) -> Event:
        name, given, result = use
        key = clip(string(item.get("id")), 200)
        data = {"name": name, "id": key, "state": state, "input": bounded(given)}
        if state == "completed":
            status = _STATES.get(string(item.get("status")) or "completed", "unknown")
            self._counts["tools"] += 1
            self._counts[f"tools_{status}"] += 1
            data |= {"status": status, "result": bounded(result)}
        return Event(EventType.AGENT_TOOL, data)

    def facts(self) -> dict[str, Any]:
        """What the last event says beside the outcome."""
        return dict(sorted(self._counts.items()))

    def outcome(self, ended: Ended, now: float, gave_up: bool = False) -> Outcome:
        """How the launch ended; `gave_up` says that it was ended because its service did not answer."""
        return Outcome(
            text=self._message,
            failure=self._offline(ended) if gave_up and not self._ended else self._failure(ended, now),
            exit_code=ended.exit.code,
            session=self._session,
            usage=difference(self.total, self._before) if self.total else None,
            duration=ended.exit.duration,
        )

    def _offline(self, ended: Ended) -> Failure:
        said = f"Codex cannot reach its service and would wait for ever: {self._problem[:400]}"
        return Failure(FailureKind.OUTAGE, said, ended.err_tail.strip()[-2000:])

    def _failure(self, ended: Ended, now: float) -> Failure | None:
        end, plain = ended.exit, "\n".join(self._plain)
        if self._ended == "failed":
            return failed(self._problem, ended.err_tail, now)
        clean = (end.code, end.signal, end.reason) == (0, None, None)
        if self._ended == "completed" and (clean or end.reason in AFTER_RESULT):
            return self._empty_handed()
        failure = ended.failure(now, plain)
        if failure is not None:
            return explained(failure, self._problem)
        if self._torn:
            return Failure(FailureKind.TRUNCATED, "Codex's output stops in the middle of a line")
        stderr = ended.err_tail.strip()[-2000:]
        return explained(
            Failure(FailureKind.NO_RESULT, "Codex ended without a result", stderr), self._problem
        )

    def _empty_handed(self) -> Failure | None:
        """A success that is none: nothing was said, or nothing was allowed."""
        if self._mode is Mode.EDIT:
            refused = self._counts["tools_rejected"]
            if refused and refused == self._counts["tools"]:
                what = f"Codex was not allowed any of the {refused} tools it needed"
                return Failure(FailureKind.REFUSED, f"{what}; see agents.codex.sandbox")
            return None
        if self._message:
            return None
        what = "plan" if self._mode is Mode.PLAN else "answer"
        return Failure(FailureKind.NO_RESULT, f"Codex ended well but gave no {what}")


def _tool(kind: str, item: Mapping[str, Any]) -> tuple[str, Any, Any] | None:
    """The name all agents share for a tool, what it was given and what came out; None for no tool."""
    if kind == "command_execution":
        result = {"output": item.get("aggregated_output"), "exit_code": item.get("exit_code")}
        return "Bash", {"command": item.get("command")}, result
    if kind == "file_change":
        changes = item.get("changes")
        kinds = {table(change).get("kind") for change in changes} if isinstance(changes, list) else set()
        return ("Write" if kinds == {"add"} else "Edit"), {"changes": changes}, None
    if kind == "web_search":
        return "WebSearch", {"query": item.get("query")}, None
    if kind == "mcp_tool_call":
        name = f"mcp__{string(item.get('server'))}__{string(item.get('tool'))}"
        return clip(name, 200), {"arguments": item.get("arguments")}, item.get("result", item.get("error"))
    return None
