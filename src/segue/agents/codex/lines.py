"""Read the JSON lines of `codex exec`: each becomes events or a count, all together the outcome.

The session files of Codex have what it does not print: the tokens of a failed turn, and how much of the
account's limits is used up, with the exact end of each.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from segue.agents.classify import meaning_of
from segue.agents.limits import read_instant, reset_at
from segue.agents.local.failures import MESSAGE_CHARS, FailureTable, load_sentences
from segue.agents.local.launch import ProcessEnd, SessionUsage
from segue.agents.local.lines import LineReader, ignore, raw_event, read_id, start_tool, thinking_event
from segue.agents.local.speech import Hear
from segue.agents.local.values import Json, as_count, as_list, as_table, as_text, clip, parse_object, shrink
from segue.domain.events import AgentUsage, Event
from segue.domain.job import Mode
from segue.domain.outcome import Failure, FailureKind, Outcome, Usage
from segue.system.files import read_end

_THREAD = re.compile(r"[A-Za-z0-9-]{1,100}")
_TAIL_BYTES = 4 * 1024 * 1024
_FULL = 100.0


class SessionFacts(Struct, frozen=True):
    """What a session's file says last; None: nothing."""

    used: Usage | None = None
    """All tokens of the thread."""
    limited_until: float | None = None
    """When the last limit ends that is used up."""
    error: str = ""
    """The kind of error that ended the last turn, as Codex calls it."""


def read_session(home: Path, thread: str | None, now: float) -> SessionFacts:
    """Return what the file of a thread says; nothing if there is none."""
    place = _find_session(home, thread)
    if place is None:
        return SessionFacts()
    lines = read_end(place, _TAIL_BYTES).decode("utf-8", "replace").splitlines()
    used: Usage | None = None
    limits: float | None = None
    is_limit_known = False
    error = _read_error_kind(lines)
    for line in reversed(lines):
        event = parse_object(line) or {} if '"token_count"' in line else {}
        payload = as_table(event.get("payload"))
        if as_text(payload.get("type")) != "token_count":
            continue
        # The last one may say only one of the two.
        used = used or _read_total(payload)
        if not is_limit_known and (windows := as_table(payload.get("rate_limits"))):
            limits, is_limit_known = (
                _read_limits(windows, read_instant(event.get("timestamp")) or now, now),
                True,
            )
        if used is not None and is_limit_known:
            break
    return SessionFacts(used, limits, error)


def read_version(home: Path, thread: str | None) -> str:
    """Return the version of Codex that the first line of a thread's file names; it prints none itself."""
    place = _find_session(home, thread)
    if place is None:
        return ""
    with place.open("rb") as file:
        line = file.readline(_TAIL_BYTES).decode("utf-8", "replace")
    return as_text(as_table((parse_object(line) or {}).get("payload")).get("cli_version"))[:40]


def count_unsupported(home: Path, thread: str | None) -> int:
    """Return how many calls of the last turn Codex did not know how to make: it prints nothing of them."""
    place = _find_session(home, thread)
    lines = read_end(place, _TAIL_BYTES).decode("utf-8", "replace").splitlines() if place else []
    count = 0
    for line in reversed(lines):
        if '"task_started"' in line:
            break
        payload = as_table((parse_object(line) or {}).get("payload")) if "unsupported call" in line else {}
        is_answer = as_text(payload.get("type")).endswith("_call_output")
        count += is_answer and as_text(payload.get("output")).startswith("unsupported call")
    return count


def _find_session(home: Path, thread: str | None) -> Path | None:
    if thread is None or not _THREAD.fullmatch(thread):
        return None
    return max(home.glob(f"sessions/*/*/*/rollout-*-{thread}.jsonl"), default=None)


def _read_error_kind(lines: list[str]) -> str:
    """Return what Codex calls the error of the turn that ended last; some kinds have details."""
    for line in reversed(lines):
        payload = as_table((parse_object(line) or {}).get("payload")) if '"task_complete"' in line else {}
        if as_text(payload.get("type")) == "task_complete":
            kind = as_table(payload.get("error")).get("codex_error_info")
            return next(iter(kind), "") if isinstance(kind, dict) else as_text(kind)
    return ""


def _read_total(payload: Json) -> Usage | None:
    total = as_table(as_table(payload.get("info")).get("total_token_usage"))
    cached = total.get("cached_input_tokens")
    read, written = as_count(total.get("input_tokens")), as_count(total.get("output_tokens"))
    found = Usage(read, written, cached_tokens=None if cached is None else as_count(cached))
    return found if found.tokens else None


def _read_limits(windows: Json, said: float, now: float) -> float | None:
    """Return when the last limit ends that is used up; `said`: when this was said."""
    ends = (_read_end(as_table(window), said, now) for window in windows.values())
    return max((end for end in ends if end is not None), default=None)


def _read_end(window: Json, said: float, now: float) -> float | None:
    used, seconds = window.get("used_percent"), window.get("resets_in_seconds")
    if not isinstance(used, int | float) or used < _FULL:
        return None
    at = said + seconds if isinstance(seconds, int | float) else window.get("resets_at")
    return reset_at(at, now)


LOGIN = "Run `codex login`, or set CODEX_API_KEY; `codex exec` does not read OPENAI_API_KEY."
FAILURES = FailureTable("Codex", LOGIN, **load_sentences(Path(__file__)))


_BY_ERROR = {
    "context_window_exceeded": FailureKind.CONTEXT,
    "usage_limit_exceeded": FailureKind.USAGE_LIMIT,
    "server_overloaded": FailureKind.OUTAGE,
    "internal_server_error": FailureKind.OUTAGE,
    "unauthorized": FailureKind.AUTH,
    "cyber_policy": FailureKind.REFUSED,
}
"""What Codex calls the errors whose words may change; its other kinds say less than the words."""
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
                "item.started": self._read_item,
                "item.updated": ignore,  # item.completed says everything
                "item.completed": self._read_item,
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
        counted: dict[str, Any] = {ours: as_count(used.get(theirs)) for ours, theirs in _TOKENS.items()}
        counted["input_tokens"] = max(0, counted["input_tokens"] - counted["cache_read_tokens"])
        event = AgentUsage(**counted)
        self._usage.report(event.count())
        return [event]

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

    def _read_item(self, line: Json) -> list[Event]:
        item, is_done = as_table(line.get("item")), line.get("type") == "item.completed"
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
        if self._turn == "completed" and self._home is not None and not self._lines.counts["tools"]:
            unsupported = count_unsupported(self._home, self._lines.session)
            self._lines.counts += Counter({"tools": unsupported, "tools_failure": unsupported})
        self._usage.store(self._lines.session)
        self._lines.usage = self._usage.spent()
        version = read_version(self._home, self._lines.session) if self._home is not None else ""
        facts = {"version": version} if version else {}
        return self._lines.outcome(end, self._lines.message, self._failure(end, now), facts)

    def _failure(self, end: ProcessEnd, now: float) -> Failure | None:
        counts, problem = self._lines.counts, self._problem[:MESSAGE_CHARS]
        if self._turn is None and self._was_given_up():
            said = f"Codex cannot reach its service and would wait for ever: {problem}"
            kind = meaning_of(problem)
            if kind in (FailureKind.USAGE_LIMIT, FailureKind.RATE_LIMIT, FailureKind.AUTH):
                return self._limited(FAILURES.fail(kind, f"Codex keeps trying: {problem}", end.err_tail))
            return FAILURES.fail(FailureKind.OUTAGE, said, end.err_tail)
        if self._turn == "failed":
            return self._limited(self._read_problem(end.err_tail, now))
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

    def _read_problem(self, err_tail: str, now: float) -> Failure:
        """Return what the error means that ended the turn: by its kind in the session file, or its words."""
        failure = FAILURES.read_words(self._problem, err_tail, now)
        kind = _BY_ERROR.get(self._session.error)
        return failure if kind in (None, failure.kind) else FAILURES.fail(kind, self._problem, err_tail)

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
