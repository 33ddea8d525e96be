"""Read the JSON lines of `codex exec`: each becomes events or a count, all together the outcome."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from segue.agents.classify import meaning_of
from segue.agents.codex.sessions import SessionFacts, read_session
from segue.agents.local.failures import MESSAGE_CHARS, FailureTable
from segue.agents.local.launch import ProcessEnd, SessionUsage
from segue.agents.local.lines import LineReader, ignore, raw_event, read_id, start_tool, thinking_event
from segue.agents.local.speech import Hear
from segue.agents.local.values import Json, as_count, as_list, as_table, as_text, clip, shrink
from segue.domain.events import AgentUsage, Event
from segue.domain.job import Mode
from segue.domain.outcome import Failure, FailureKind, Outcome, Usage

LOGIN = "Run `codex login`, or set CODEX_API_KEY; `codex exec` does not read OPENAI_API_KEY."
FAILURES = FailureTable(
    "Codex",
    LOGIN,
    at_start={
        FailureKind.NOT_STARTED: {
            r"no rollout found.*": "Codex does not know the session to continue",
            r".*not inside a trusted directory.*": "Codex does not trust this folder",
            r"error: unexpected argument.*": "this version of Codex does not know an option",
            r"Error loading config.*": "Codex does not accept its configuration",
        }
    },
    in_result={
        FailureKind.USAGE_LIMIT: {r"^Quota exceeded\b|usage limit has been reached": ""},
        FailureKind.AUTH: {r"unexpected status (?:401|403)\b": "", r"Missing environment variable": ""},
        FailureKind.NOT_STARTED: {
            r"unexpected status 404\b": "Codex's service does not know what it was asked for"
        },
        FailureKind.CONTEXT: {
            r"ran out of room|context_length_exceeded": "the conversation has become too long for the model"
        },
        FailureKind.OUTAGE: {
            r"(?:last|unexpected) status:? 5\d\d|high demand|overloaded": "Codex's service is in trouble",
            r"stream disconnected": "Codex lost the connection to its service",
        },
    },
)


_STATES = {"completed": "success", "failed": "failure", "declined": "rejected"}
_TOKENS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_tokens": "cached_input_tokens",
    "reasoning_tokens": "reasoning_output_tokens",
}


class CodexLines:
    """Remembers what the outcome of a launch needs."""

    def __init__(
        self,
        mode: Mode,
        usage: SessionUsage | None = None,
        model: str | None = None,
        was_given_up: Callable[[], bool] = lambda: False,
        home: Path | None = None,
        hear: Hear | None = None,
    ) -> None:
        """`was_given_up` returns whether Codex was stopped because its service did not answer.

        `home` is where its session files are.
        """
        self._mode, self._was_given_up, self._home = mode, was_given_up, home
        self._usage = usage or SessionUsage()
        self._turn: str | None = None
        self._session = SessionFacts()
        self._problem = ""
        self.offline_since: float | None = None
        """When Codex began to wait for its service, on the monotonic clock; it would wait for ever."""
        self._lines = LineReader(
            {
                "thread.started": self._read_thread,
                "turn.started": ignore,
                "turn.completed": self._read_completed,
                "turn.failed": self._read_failed,
                "item.started": lambda line: self._read_item(line, is_done=False),
                "item.updated": ignore,  # item.completed says everything
                "item.completed": lambda line: self._read_item(line, is_done=True),
                "error": self._read_error,
            },
            self._note_contact,
            hear,
        )
        self._lines.model = model
        self.read = self._lines.read

    def _note_contact(self, line: Json) -> None:
        if line.get("type") != "error":
            self.offline_since = None

    def _read_thread(self, line: Json) -> list[Event]:
        self._lines.session = as_text(line.get("thread_id")) or self._lines.session
        return [raw_event(line)]

    def _read_completed(self, line: Json) -> list[Event]:
        self._turn = "completed"
        used = as_table(line.get("usage"))
        if not used:
            return []
        counted = {ours: as_count(used.get(theirs)) for ours, theirs in _TOKENS.items()}
        self._usage.report(Usage(counted["input_tokens"], counted["output_tokens"]))
        return [AgentUsage(**counted)]

    def _read_failed(self, line: Json) -> list[Event]:
        self._turn = "failed"
        self._problem = as_text(as_table(line.get("error")).get("message")) or self._problem
        return [raw_event(line)]

    def _read_error(self, line: Json) -> list[Event]:
        """Read an error, which is usually followed by a retry."""
        self._problem = as_text(line.get("message")) or self._problem
        if self._problem.startswith("Reconnecting"):
            self._lines.counts["reconnects"] += 1
            self.offline_since = self.offline_since or time.monotonic()
        return [raw_event(line)]

    def _read_item(self, line: Json, is_done: bool) -> list[Event]:
        item = as_table(line.get("item"))
        kind, text = as_text(item.get("type")), as_text(item.get("text"))
        if kind == "agent_message":
            return self._lines.say(text) if is_done else []
        if kind == "reasoning":
            return [thinking_event(text)] if is_done else []
        if kind in ("todo_list", "error"):
            return [raw_event({**item, "type": kind})] if is_done else []
        tool = _read_tool(kind, item)
        if tool is None:
            return self._lines.keep_unknown(line)
        name, given, result = tool
        key = read_id(item.get("id"))
        if not is_done:
            return [start_tool(name, key, shrink(given))]
        status = _STATES.get(as_text(item.get("status")) or "completed", "unknown")
        return [self._lines.finish_tool(name, key, shrink(given), status, result)]

    def outcome(self, end: ProcessEnd, now: float) -> Outcome:
        """Return how the launch ended, judging by everything that was read, and its session file."""
        if self._turn != "completed" and self._home is not None:
            self._session = read_session(self._home, self._lines.session, now)
            self._usage.total = self._usage.total or self._session.used
        self._usage.store(self._lines.session)
        self._lines.usage = self._usage.spent()
        return self._lines.outcome(end, self._lines.message, self._failure(end, now), {})

    def _failure(self, end: ProcessEnd, now: float) -> Failure | None:
        counts, problem = self._lines.counts, self._problem[:MESSAGE_CHARS]
        if self._turn is None and self._was_given_up():
            said = f"Codex cannot reach its service and would wait for ever: {problem}"
            kind = meaning_of(problem)
            if kind in (FailureKind.USAGE_LIMIT, FailureKind.RATE_LIMIT, FailureKind.AUTH):
                return self._limited(FAILURES.fail(kind, f"Codex keeps trying: {problem}", end.err_tail))
            return FAILURES.fail(FailureKind.OUTAGE, said, end.err_tail)
        if self._turn == "failed":
            return self._limited(FAILURES.read_words(self._problem, end.err_tail, now))
        if self._turn == "completed" and end.keeps_result:
            refused = counts["tools_rejected"]
            worked = refused < counts["tools"]
            return FAILURES.judge_success(
                self._mode, self._lines.message, refused, worked, "agents.codex.sandbox"
            )
        failure = FAILURES.judge_end(end, self._lines, now)
        if failure.kind in (FailureKind.TIMEOUT, FailureKind.HANG) and problem:
            return replace(failure, message=f"{failure.message}; Codex said last: {problem}")
        return failure

    def _limited(self, failure: Failure) -> Failure:
        """Return the failure with the end of the limit that the session file names."""
        until = self._session.limited_until
        if until is None or failure.kind not in (FailureKind.USAGE_LIMIT, FailureKind.RATE_LIMIT):
            return failure
        return replace(failure, kind=FailureKind.USAGE_LIMIT, until=until)


def _read_tool(kind: str, item: Json) -> tuple[str, Any, Any] | None:
    """Return a tool's common name, its input and its result; None if it is not a tool."""
    if kind == "command_execution":
        result = {"output": item.get("aggregated_output"), "exit_code": item.get("exit_code")}
        return "Bash", {"command": item.get("command")}, result
    if kind == "file_change":
        kinds = {as_table(change).get("kind") for change in as_list(item.get("changes"))}
        return ("Write" if kinds == {"add"} else "Edit"), {"changes": item.get("changes")}, None
    if kind == "web_search":
        return "WebSearch", {"query": item.get("query")}, None
    if kind == "mcp_tool_call":
        name = f"mcp__{as_text(item.get('server'))}__{as_text(item.get('tool'))}"
        return clip(name, 200), {"arguments": item.get("arguments")}, item.get("result", item.get("error"))
    return None
