"""Read the stream-json lines of Claude Code: each becomes events or a count, all together the outcome.

There may be several results; the last one counts.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from segue.agents.classify import classify, meaning_of
from segue.agents.limits import Refusal, reset_at, reset_time
from segue.agents.local.failures import FailureTable, load_sentences
from segue.agents.local.launch import ProcessEnd, SessionUsage
from segue.agents.local.lines import LineReader, raw_event, read_id, start_tool, thinking_event
from segue.agents.local.speech import Hear
from segue.agents.local.values import Json, as_count, as_list, as_money, as_table, as_text, clip, shrink
from segue.domain.events import AgentUsage, Event, WordsDelivered
from segue.domain.job import Limits, Mode
from segue.domain.outcome import Failure, FailureKind, Outcome, Usage

LOGIN = "Run `claude auth login`, or set ANTHROPIC_API_KEY."
FAILURES = FailureTable("Claude", LOGIN, **load_sentences(Path(__file__)))
_API_ERROR = re.compile(r"^API Error:\s*(?:Request rejected \(\d+\)|\d{3})?\s*[·:]?\s*")
_BY_REASON = {
    "prompt_too_long": (FailureKind.CONTEXT, "the conversation has become too long for the model"),
    "max_turns": (FailureKind.MAX_TURNS, "Claude used all the turns it may take (agents.claude.max_turns)"),
    "budget_exhausted": (
        FailureKind.USAGE_LIMIT,
        "Claude used all the money that one launch may cost",
    ),
}
_BY_API_ERROR = {
    "connection_failed": (
        FailureKind.OUTAGE,
        "Claude could not connect to its service, or lost the connection",
    ),
    "max_output_tokens": (FailureKind.TRUNCATED, "Claude's answer was cut at the model's longest output"),
}
_BY_STATUS = {
    401: (FailureKind.AUTH, ""),
    402: (FailureKind.USAGE_LIMIT, ""),
    403: (FailureKind.AUTH, ""),
    404: (FailureKind.NOT_STARTED, "Claude's service does not know the model, or what it was asked for"),
    413: (FailureKind.CONTEXT, "the request is too large for Claude's service"),
    429: (FailureKind.RATE_LIMIT, ""),
}


def read_failure(result: Json, err_tail: str, now: float, limit: float | None = None) -> Failure:
    """Return what a result means that reports an error; `limit`: when its service says that it ends."""
    errors = "; ".join(filter(None, map(as_text, as_list(result.get("errors")))))
    said = (as_text(result.get("result")) or errors).strip()
    known = classify(1, None, None, "", _API_ERROR.sub("", said), "", now)
    if known is not None and known.kind is FailureKind.USAGE_LIMIT:
        return FAILURES.fail(known.kind, known.message, err_tail, limit or known.until)
    kind, meaning = _judge(result, said)
    if kind is FailureKind.RATE_LIMIT and limit is not None:
        return FAILURES.fail(FailureKind.USAGE_LIMIT, said or "a usage limit is reached", err_tail, limit)
    until = reset_time(said, now) if kind is FailureKind.RATE_LIMIT else None
    return FAILURES.fail(kind, ": ".join(filter(None, (meaning, said))), err_tail, until)


def is_aborted(result: Json) -> bool:
    """Return whether the result only says that the program was interrupted, no matter who stopped it."""
    return as_text(result.get("terminal_reason")).startswith("aborted")


def _judge(result: Json, said: str) -> tuple[FailureKind, str]:
    reason, error = as_text(result.get("terminal_reason")), as_text(result.get("api_error"))
    if reason in _BY_REASON:
        return _BY_REASON[reason]
    if error in _BY_API_ERROR:
        return _BY_API_ERROR[error]
    if is_aborted(result):
        return FailureKind.INTERRUPTED, "Claude was interrupted"
    if as_count(result.get("safety_stops")):
        return FailureKind.REFUSED, "Claude's model refuses to work on this"
    # Its status is 400, or missing if Claude notices by itself.
    if meaning_of(said) is FailureKind.CONTEXT:
        return FailureKind.CONTEXT, "the conversation has become too long for the model"
    status = result.get("api_error_status")
    if isinstance(status, int) and status >= 500:
        return FailureKind.OUTAGE, "Claude's service is in trouble"
    if status == 403 and meaning_of(said) is FailureKind.USAGE_LIMIT:
        return FailureKind.USAGE_LIMIT, ""  # of the plan: another key is no help
    if isinstance(status, int) and status:
        return _BY_STATUS.get(status) or (meaning_of(said) or FailureKind.UNKNOWN, "")
    if found := FAILURES.find_sentence(said):
        return found[0], found[1]
    # An error of its service without a status came in the middle of an answer.
    unclear = FailureKind.OUTAGE if said and reason == "api_error" else FailureKind.UNKNOWN
    return meaning_of(said) or unclear, ""


_OPEN_TOOLS = 1000
_MOMENT = 1.0
_INIT = ("cwd", "model", "permissionMode", "tools", "mcp_servers", "apiKeySource", "claude_code_version")
_SYSTEM = {
    "init",
    "status",
    "api_retry",
    "permission_denied",
    "model_fallback",
    "compact_boundary",
    "background_tasks_changed",
    "task_started",
    "task_updated",
    "task_progress",
    "task_notification",
    "hook_started",
    "hook_progress",
    "hook_response",
}
_READING = {"Read", "Grep", "Glob", "LS", "WebSearch", "WebFetch", "ToolSearch", "TodoWrite", "TaskOutput"}
_MODEL_TOKENS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_tokens": "cacheReadInputTokens",
    "cache_write_tokens": "cacheCreationInputTokens",
}
_MESSAGE_TOKENS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_tokens": "cache_read_input_tokens",
    "cache_write_tokens": "cache_creation_input_tokens",
}


RESULT = '"type":"result"'
"""What only a line with a result has: inside of a text the quotes would be escaped."""
_NUMBERS = 2**32
_OURS = uuid.uuid5(uuid.NAMESPACE_OID, "what Segue says").int // _NUMBERS


def write_message(text: str, number: int | None = None) -> str:
    """Return a message for Claude's stdin; one with a number is known by it when Claude prints it again."""
    message: dict[str, Any] = {"type": "user", "message": {"role": "user", "content": text}}
    if number is not None:
        message["uuid"] = str(uuid.UUID(int=_OURS * _NUMBERS + number))
    return json.dumps(message)


def read_number(message: Json) -> int | None:
    """Return the number of a message that Claude prints because its model gets it; None if it has none."""
    try:
        ours, number = divmod(uuid.UUID(as_text(message.get("uuid"))).int, _NUMBERS)
    except ValueError:
        return None
    return number if message.get("isReplay") and ours == _OURS else None


class ClaudeLines:
    """Remembers what the outcome of a launch needs."""

    def __init__(self, mode: Mode, usage: SessionUsage | None = None, hear: Hear | None = None) -> None:
        self._mode = mode
        self._usage = usage or SessionUsage()
        self._result: Json | None = None
        self._denied: dict[str, None] = {}
        self._open: dict[str, tuple[str, Any]] = {}
        self._worked = False
        self._limits: dict[str, float] = {}
        self._counted = dict.fromkeys(_MESSAGE_TOKENS, 0)
        self._counted_id = ""
        self.refusal: Refusal | None = None
        """Why Claude waits before it tries again, if it does now."""
        self.is_finished = False
        """True if a result was read and no work has begun since, as a command in the background may do."""
        self._lines = LineReader(
            {
                "system": self._read_system,
                "assistant": self._read_assistant,
                "user": self._read_user,
                "result": self._read_result,
                "rate_limit_event": self._read_limit,
                "stream_event": self._read_piece,
                "command_lifecycle": lambda _line: [],
            },
            hear=hear,
        )
        self.read = self._lines.read

    def patience(self, grace: float, limits: Limits) -> float | None:
        """Return how long Claude may be silent now: a moment, where it waits longer than others would."""
        if self.refusal is not None and self.refusal.outlasts(limits.patience, time.time()):
            return _MOMENT
        return grace if self.is_finished else None

    def _read_limit(self, line: Json) -> list[Event]:
        """Read what is known about a limit of the account: whether it is reached, and when it ends."""
        info = as_table(line.get("rate_limit_info"))
        is_reached = info.get("status") == "rejected" and not info.get("isUsingOverage")
        # The account has several limits, and one that is not reached says nothing about the others.
        which = clip(as_text(info.get("rateLimitType")), 100)
        end = reset_at(info.get("resetsAt"), time.time()) if is_reached else None
        if end is None:
            self._limits.pop(which, None)
            if not self._limits and self.refusal and self.refusal.kind is FailureKind.USAGE_LIMIT:
                self.refusal = None
        elif len(self._limits) < _OPEN_TOOLS:
            self._limits[which] = end
            message = "Claude has reached a usage limit"
            self.refusal = Refusal(FailureKind.USAGE_LIMIT, max(self._limits.values()), message)
        return [raw_event(line)]

    def _read_retry(self, line: Json) -> None:
        self._lines.counts["api_retries"] += 1
        delay, status = line.get("retry_delay_ms"), as_count(line.get("error_status"))
        if not isinstance(delay, int | float):
            return
        kind = FailureKind.OUTAGE if status != 429 else FailureKind.RATE_LIMIT
        said = f"Claude's service refuses ({status or as_text(line.get('error'))})"
        seconds = max(0.0, delay / 1000)
        message = f"{said} and asks to wait {seconds:.0f} s"
        self.refusal = Refusal(kind, time.time() + seconds, message)

    def _read_system(self, line: Json) -> list[Event]:
        subtype = as_text(line.get("subtype"))
        if subtype not in _SYSTEM:
            return self._lines.keep_unknown(line)
        if subtype == "init":
            self.is_finished = False
            self._lines.model = as_text(line.get("model")) or self._lines.model
            kept = {name: line[name] for name in _INIT if name in line}
            return [raw_event({"type": "system", "subtype": "init", **kept})]
        if subtype == "api_retry":
            self._read_retry(line)
        if subtype == "permission_denied":
            self._deny(line)
        return [raw_event(line)]

    def _deny(self, denial: Json) -> None:
        name = as_text(denial.get("tool_use_id")) or f"denial {len(self._denied)}"
        if len(self._denied) < _OPEN_TOOLS:
            self._denied[clip(name, 200)] = None

    def _read_piece(self, line: Json) -> list[Event]:
        """Read a piece of a message that also comes whole, which somebody wanted to hear."""
        delta = as_table(as_table(line.get("event")).get("delta"))
        if delta.get("type") == "text_delta" and line.get("parent_tool_use_id") is None:
            self._lines.speech.add(as_text(delta.get("text")))
        return []

    def _read_assistant(self, line: Json) -> list[Event]:
        self.is_finished = False
        if line.get("error") or as_table(line.get("message")).get("model") == "<synthetic>":
            return [raw_event(line)]  # written by Claude Code, not by the model; the result repeats it
        self.refusal = None
        self._limits.clear()
        is_subagent = line.get("parent_tool_use_id") is not None
        events = [event for block in _blocks(line) for event in self._read_block(block, is_subagent)]
        return [*events, *self._count_message(as_table(line.get("message")))]

    def _count_message(self, message: Json) -> Iterator[AgentUsage]:
        """Yield what was used so far, where an answer of the model is the first of its kind and says it."""
        used, key = as_table(message.get("usage")), read_id(message.get("id"))
        if not any(as_count(used.get(name)) for name in _MESSAGE_TOKENS.values()) or key == self._counted_id:
            return
        self._counted_id = key
        for ours, theirs in _MESSAGE_TOKENS.items():
            self._counted[ours] += as_count(used.get(theirs))
        yield AgentUsage(**self._counted, live=True)

    def _read_block(self, block: Json, is_subagent: bool) -> Iterator[Event]:
        kind = block.get("type")
        if kind == "text":
            yield from self._lines.say(as_text(block.get("text")), is_subagent)
        elif kind == "thinking":
            yield thinking_event(as_text(block.get("thinking")))
        elif kind == "tool_use":
            name, given = clip(as_text(block.get("name")), 200), shrink(dict(as_table(block.get("input"))))
            key = read_id(block.get("id"))
            if len(self._open) < _OPEN_TOOLS:
                self._open[key] = name, given
            yield start_tool(name, key, given)
        else:
            yield from self._lines.keep_unknown(block)

    def _read_user(self, line: Json) -> list[Event]:
        """Read the results of tools, and what Claude was told; anything else is the prompt."""
        self.is_finished = False
        if (number := read_number(line)) is not None:
            return [WordsDelivered((number,), "session")]
        results = [block for block in _blocks(line) if block.get("type") == "tool_result"]
        return [self._finish_tool(block, line) for block in results]

    def _finish_tool(self, block: Json, line: Json) -> Event:
        key = read_id(block.get("tool_use_id"))
        name, given = self._open.pop(key, ("", {}))
        status = self._status(key, block, line)
        self._worked = self._worked or (status == "success" and name not in _READING)
        return self._lines.finish_tool(name, key, given, status, block.get("content"))

    def _status(self, key: str, block: Json, line: Json) -> str:
        if not block.get("is_error"):
            return "success"
        metas = map(as_table, as_list(line.get("tool_result_meta")))
        found = [as_table(meta.get("permission_decision")) for meta in metas if meta.get("id") == key]
        is_rejected = "reject" in [decision.get("decision") for decision in found]
        return "rejected" if is_rejected or key in self._denied else "failure"

    def _read_result(self, line: Json) -> list[Event]:
        self._lines.counts["results"] += 1
        if self.is_finished and is_aborted(line):
            return [raw_event(line)]  # it was stopped when it had nothing left to do
        self._result, self.is_finished = line, True
        self._lines.lost = self._lines.lost and not line.get("result")
        for denial in as_list(line.get("permission_denials")):
            self._deny(as_table(denial))
        models = [as_table(model) for model in as_table(line.get("modelUsage")).values()]
        if not models:
            return []
        counted: dict[str, Any] = {
            ours: sum(as_count(m.get(key)) for m in models) for ours, key in _MODEL_TOKENS.items()
        }
        used = AgentUsage(**counted, cost_usd=as_money(line.get("total_cost_usd")))
        self._usage.report(used.count(), _read_launch(as_table(line.get("usage"))))
        return [used]

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        result = self._result or {}
        for name in ("terminal_reason", "num_turns", "structured_output"):
            if result.get(name) is not None:
                facts[name] = shrink(result[name])
        if self._denied:
            facts["permission_denials"] = len(self._denied)
        if self._denied and self._mode is Mode.EDIT:
            facts["note"] = (
                f"Claude was denied {len(self._denied)} uses of tools; agents.claude.permission_mode and "
                "agents.claude.allowed_tools say what it may do."
            )
        return facts

    def outcome(self, end: ProcessEnd, now: float) -> Outcome:
        """Return how the launch ended, judging by everything that was read."""
        self._usage.store(self._lines.session)
        self._lines.usage = self._usage.spent()
        result = self._result or {}
        said = "" if result.get("is_error") else as_text(result.get("result"))
        text = said or self._lines.message
        return self._lines.outcome(end, text, self._failure(end, now), self._facts())

    def _failure(self, end: ProcessEnd, now: float) -> Failure | None:
        result = self._result
        if result is None and self.refusal is not None and not end.is_clean:
            refusal = self.refusal
            return FAILURES.fail(refusal.kind, refusal.message, end.err_tail, refusal.until)
        if result is None:
            return FAILURES.judge_end(end, self._lines, now)
        if result.get("is_error") or result.get("subtype") not in (None, "success"):
            if not (is_aborted(result) and end.exit.reason):
                return read_failure(result, end.err_tail, now, max(self._limits.values(), default=None))
        elif end.is_clean or (self.is_finished and end.keeps_result):
            text = as_text(result.get("result")) or self._lines.message
            setting = "agents.claude.permission_mode"
            return FAILURES.judge_success(self._mode, text, len(self._denied), self._worked, setting)
        return FAILURES.judge_end(end, self._lines, now)


def _read_launch(usage: Json) -> Usage | None:
    """Return what this launch used, as all versions report it; `modelUsage` may be the session's total."""
    read = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    cached = as_count(usage.get(read[1]))
    counted = sum(as_count(usage.get(name)) for name in read)
    found = Usage(counted, as_count(usage.get("output_tokens")), cached_tokens=cached)
    return found if found.tokens else None


def _blocks(line: Json) -> list[Json]:
    content = as_table(line.get("message")).get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [as_table(block) for block in as_list(content)]
