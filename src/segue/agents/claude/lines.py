"""Reads the stream-json lines of Claude Code: each becomes events or a count, all together the outcome.

Nothing in here is fatal: a line of an unknown kind is kept in short and counted, one that is no JSON is
kept as output. There may be several results; the last one counts.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from segue.agents.claude.failures import aborted, explained, failed
from segue.agents.cursor.failures import AFTER_RESULT
from segue.agents.cursor.tools import bounded, clip, table
from segue.agents.json_lines import TEXT_CHARS, broken, count, money, parsed, raw, string, torn
from segue.agents.local import Ended
from segue.agents.session_usage import difference
from segue.domain.event import Event, EventType
from segue.domain.failure import Failure, FailureKind
from segue.domain.job import Mode
from segue.domain.outcome import Outcome, Usage

_PLAIN_LINES = 20
_PLAIN_CHARS = 2000
_OPEN_TOOLS = 1000
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


class ClaudeLines:
    """Remembers of a launch what its outcome needs, whatever else was printed."""

    def __init__(self, mode: Mode, before: Usage | None = None) -> None:
        """`before` is what the session had used when the launch began: Claude reports its total."""
        self._mode = mode
        self._before = before or Usage()
        self._result: Mapping[str, Any] | None = None
        self._resting = False
        self._session: str | None = None
        self._model: str | None = None
        self._message = ""
        self._denied: dict[str, None] = {}
        self._open: dict[str, tuple[str, Any]] = {}
        self._worked = False
        self._counts = Counter[str]()
        self._plain: deque[str] = deque(maxlen=_PLAIN_LINES)
        self._torn = False
        self.total: Usage | None = None
        """What the session has used in all, as soon as a result says so."""
        self._kinds: dict[str, Callable[[Mapping[str, Any]], list[Event]]] = {
            "system": self._system,
            "assistant": self._assistant,
            "user": self._user,
            "result": self._finish,
            "stream_event": lambda _line: [],  # pieces of what comes whole
        }

    @property
    def finished(self) -> bool:
        """Whether a result was read and no work has begun since: a command in the background may do that."""
        return self._resting

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
        self._session = string(line.get("session_id")) or self._session
        kind = line.get("type")
        read = self._kinds.get(kind) if isinstance(kind, str) else None
        return read(line) if read else self._unknown(line)

    def _unknown(self, line: Mapping[str, Any]) -> list[Event]:
        self._counts["unknown_lines"] += 1
        return [raw(line)]

    def _system(self, line: Mapping[str, Any]) -> list[Event]:
        subtype = string(line.get("subtype"))
        if subtype not in _SYSTEM:
            return self._unknown(line)
        if subtype == "init":
            self._resting = False
            self._model = string(line.get("model")) or self._model
            kept = {name: line[name] for name in _INIT if name in line}
            return [raw({"type": "system", "subtype": "init", **kept})]
        if subtype == "api_retry":
            self._counts["api_retries"] += 1
        if subtype == "permission_denied":
            self._deny(line)
        return [raw(line)]

    def _deny(self, denial: Mapping[str, Any]) -> None:
        name = string(denial.get("tool_use_id")) or f"denial {len(self._denied)}"
        if len(self._denied) < _OPEN_TOOLS:
            self._denied[clip(name, 200)] = None

    def _assistant(self, line: Mapping[str, Any]) -> list[Event]:
        self._resting = False
        if line.get("error") or table(line.get("message")).get("model") == "<synthetic>":
            return [raw(line)]  # words Claude Code puts into the model's mouth; the result repeats them
        inner = line.get("parent_tool_use_id") is not None
        return [event for block in _blocks(line) for event in self._block(block, inner)]

    def _block(self, block: Mapping[str, Any], inner: bool) -> Iterator[Event]:
        kind = block.get("type")
        if kind == "text" and (text := string(block.get("text"))[-TEXT_CHARS:]).strip():
            # What a subagent says goes to the agent, not to the user.
            self._message = self._message if inner else text
            yield Event(EventType.AGENT_TEXT, {"text": text, **({"subagent": True} if inner else {})})
        elif kind == "thinking":
            chars = len(string(block.get("thinking")))
            yield Event(EventType.AGENT_RAW, {"type": "thinking", "chars": chars})
        elif kind == "tool_use":
            yield self._started(block)
        elif kind != "text":
            yield from self._unknown(block)

    def _started(self, block: Mapping[str, Any]) -> Event:
        name, given = clip(string(block.get("name")), 200), bounded(dict(table(block.get("input"))))
        key = clip(string(block.get("id")), 200)
        if len(self._open) < _OPEN_TOOLS:
            self._open[key] = name, given
        return Event(EventType.AGENT_TOOL, {"name": name, "id": key, "state": "started", "input": given})

    def _user(self, line: Mapping[str, Any]) -> list[Event]:
        """Results of tools; anything else is the prompt, which is stored elsewhere."""
        self._resting = False
        results = [block for block in _blocks(line) if block.get("type") == "tool_result"]
        return [self._completed(block, line) for block in results]

    def _completed(self, block: Mapping[str, Any], line: Mapping[str, Any]) -> Event:
        key = clip(string(block.get("tool_use_id")), 200)
        name, given = self._open.pop(key, ("", {}))
        status = self._status(key, block, line)
        self._counts["tools"] += 1
        self._counts[f"tools_{status}"] += 1
        self._worked = self._worked or (status == "success" and name not in _READING)
        data = {"name": name, "id": key, "state": "completed", "input": given}
        return Event(
            EventType.AGENT_TOOL, {**data, "status": status, "result": bounded(block.get("content"))}
        )

    def _status(self, key: str, block: Mapping[str, Any], line: Mapping[str, Any]) -> str:
        if not block.get("is_error"):
            return "success"
        found = [table(meta) for meta in _items(line.get("tool_result_meta")) if table(meta).get("id") == key]
        decisions = [table(meta.get("permission_decision")).get("decision") for meta in found]
        return "rejected" if "reject" in decisions or key in self._denied else "failure"

    def _finish(self, line: Mapping[str, Any]) -> list[Event]:
        self._counts["results"] += 1
        if self._resting and aborted(line):
            return [raw(line)]  # it was ended while it had nothing more to do
        self._result, self._resting = line, True
        for denial in _items(line.get("permission_denials")):
            self._deny(table(denial))
        models = [table(model) for model in table(line.get("modelUsage")).values()]
        if not models:
            return []
        counted = {ours: sum(count(m.get(key)) for m in models) for ours, key in _MODEL_TOKENS.items()}
        read = counted["input_tokens"] + counted["cache_read_tokens"] + counted["cache_write_tokens"]
        cost = money(line.get("total_cost_usd"))
        self.total = Usage(read, counted["output_tokens"], cost)
        return [Event(EventType.AGENT_USAGE, {**counted, "cost_usd": cost})]

    def facts(self) -> dict[str, Any]:
        """What the last event says beside the outcome."""
        facts: dict[str, Any] = dict(sorted(self._counts.items()))
        result = self._result or {}
        for name in ("terminal_reason", "num_turns", "structured_output"):
            if result.get(name) is not None:
                facts[name] = bounded(result[name])
        if self._denied:
            facts["permission_denials"] = len(self._denied)
        if self._denied and self._mode is Mode.EDIT:
            facts["note"] = (
                f"Claude was denied {len(self._denied)} uses of tools; agents.claude.permission_mode and "
                "agents.claude.allowed_tools say what it may do."
            )
        return facts

    def outcome(self, ended: Ended, now: float) -> Outcome:
        """How the launch ended, in view of everything that was read."""
        failure = self._failure(ended, now)
        said = "" if (self._result or {}).get("is_error") else string((self._result or {}).get("result"))
        return Outcome(
            text=(said or self._message)[-TEXT_CHARS:],
            failure=failure,
            exit_code=ended.exit.code,
            session=self._session,
            model=self._model,
            usage=difference(self.total, self._before) if self.total else None,
            duration=ended.exit.duration,
        )

    def _failure(self, ended: Ended, now: float) -> Failure | None:
        end, result, plain = ended.exit, self._result, "\n".join(self._plain)
        if result is not None and _is_error(result) and not (aborted(result) and end.reason):
            return failed(result, ended.err_tail, now)
        after = self._resting and end.reason in AFTER_RESULT
        clean = (end.code, end.signal, end.reason) == (0, None, None)
        if result is not None and not _is_error(result) and (after or clean):
            return self._empty_handed(result)
        failure = ended.failure(now, plain)
        if failure is not None:
            return explained(failure, plain) if end.reason is None else failure
        if self._torn:
            return Failure(FailureKind.TRUNCATED, "Claude's output stops in the middle of a line")
        stderr = ended.err_tail.strip()[-2000:]
        return explained(Failure(FailureKind.NO_RESULT, "Claude ended without a result", stderr), plain)

    def _empty_handed(self, result: Mapping[str, Any]) -> Failure | None:
        """A success that is none: nothing was said, or nothing was allowed."""
        if self._mode is Mode.EDIT:
            if self._denied and not self._worked:
                what = f"Claude was not allowed any of the {len(self._denied)} tools it needed"
                return Failure(FailureKind.REFUSED, f"{what}; see agents.claude.permission_mode")
            return None
        if (string(result.get("result")) or self._message).strip():
            return None
        what = "plan" if self._mode is Mode.PLAN else "answer"
        return Failure(FailureKind.NO_RESULT, f"Claude ended well but gave no {what}")


def _is_error(result: Mapping[str, Any]) -> bool:
    return bool(result.get("is_error")) or result.get("subtype") not in (None, "success")


def _blocks(line: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = table(line.get("message")).get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [table(block) for block in _items(content)]


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
