"""Read the stream-json lines of the Cursor CLI: each becomes events or counts, all together the outcome."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec import Struct

from segue.agents.local.failures import FailureTable, load_sentences
from segue.agents.local.launch import ProcessEnd
from segue.agents.local.lines import LineReader, ignore, raw_event, read_id, start_tool, thinking_event
from segue.agents.local.speech import Hear
from segue.agents.local.values import Json, as_count, as_list, as_table, as_text, shrink
from segue.domain.events import AgentUsage, Event
from segue.domain.job import Mode
from segue.domain.outcome import Failure, FailureKind, Outcome
from segue.domain.text import AnswerText

_NAMES = {
    "shell": "Bash",
    "read": "Read",
    "write": "Write",
    "edit": "Edit",
    "webSearch": "WebSearch",
    "webFetch": "WebFetch",
    # the generic shape has other names
    "run_terminal_cmd": "Bash",
    "read_file": "Read",
    "write_file": "Write",
    "edit_file": "Edit",
    "search_replace": "Edit",
    "web_search": "WebSearch",
    "web_fetch": "WebFetch",
}
_STATUSES = ("success", "failure", "rejected", "error", "spawnError")
_SUFFIX = "ToolCall"


class ToolUse(Struct, frozen=True):
    """One use of a tool; `status` and `result` are known once it has ended."""

    name: str
    input: Json
    status: str | None
    result: Any


def read_tool_use(call: Json) -> ToolUse | None:
    """Return what the `tool_call` of a line says; None if its shape is unknown."""
    kind, body = _find_kind(call)
    if kind is None:
        return None
    result = body.get("result", call.get("result"))
    status, value = _read_status(result)
    return ToolUse(_NAMES.get(kind, kind), as_table(body.get("args")), status, value)


def _find_kind(call: Json) -> tuple[str | None, Json]:
    for key, body in call.items():
        # Other keys, such as toolCallId, may come first.
        if key.endswith(_SUFFIX) and isinstance(body, dict):
            return key.removesuffix(_SUFFIX), body
    function, tool = as_table(call.get("function")), as_table(call.get("tool"))
    if isinstance(function.get("name"), str):
        return function["name"], {**function, "args": _read_arguments(function.get("arguments"))}
    if isinstance(tool.get("case"), str):
        return tool["case"].removesuffix(_SUFFIX), as_table(tool.get("value"))
    return None, {}


def _read_arguments(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given)
    except (ValueError, RecursionError):
        return {"arguments": given}


def _read_status(result: Any) -> tuple[str | None, Any]:
    """Return how it ended; next to the status there may be other keys, such as planUri."""
    found = as_table(result)
    nested = as_table(found.get("result", found))
    if nested.get("case") in _STATUSES:
        return nested["case"], nested.get("value")
    for status in _STATUSES:
        if status in found:
            return status, found[status]
    return None, result


LOGIN = "Run `cursor-agent login`, or set CURSOR_API_KEY."
FAILURES = FailureTable("Cursor", LOGIN, **load_sentences(Path(__file__)))


_TOKENS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_tokens": "cacheReadTokens",
    "cache_write_tokens": "cacheWriteTokens",
}


class CursorLines:
    """Remembers what the outcome of a launch needs."""

    def __init__(self, mode: Mode, hear: Hear | None = None, *, plain: bool = False) -> None:
        """`plain`: the program may be another one, whose text is its answer."""
        self._mode, self._may_be_plain = mode, plain
        self._printed = AnswerText()
        self._result: Json | None = None
        self._plan = ""
        self._pieces = AnswerText()
        self._is_partial = False
        self._thoughts = ""
        self._lines = LineReader(
            {
                "system": self._read_system,
                "user": ignore,  # the prompt, which is stored elsewhere
                "thinking": self._read_thinking,
                "assistant": self._read_assistant,
                "tool_call": self._read_tool_call,
                "interaction_query": lambda line: [raw_event(line)],
                "result": self._read_result,
            },
            hear=hear,
            envelope=("session_id", "subtype", "is_error", "timestamp_ms"),
        )

    def read(self, text: str) -> list[Event] | None:
        """Return the events in a line; None if it is plain text."""
        events = self._lines.read(text)
        if events is None:
            self._printed.add(f"{text}\n")
        return events

    @property
    def is_finished(self) -> bool:
        """True if the result was read: whatever the process does after that, the work is over."""
        return self._result is not None

    def _read_system(self, line: Json) -> list[Event]:
        self._lines.model = as_text(line.get("model")) or self._lines.model
        return [raw_event(line)]

    def _read_thinking(self, line: Json) -> list[Event]:
        """Collect the pieces of a thought, of which there are hundreds, into one event."""
        if line.get("subtype") != "completed":
            self._thoughts += as_text(line.get("text"))
            return []
        text, self._thoughts = self._thoughts, ""
        return [thinking_event(text)]

    def _read_assistant(self, line: Json) -> list[Event]:
        text = _read_content(line)
        if "timestamp_ms" in line and "model_call_id" not in line:
            self._is_partial = True
            self._pieces.add(text)
            self._lines.speech.add(text)
            return []
        # With partial output the other lines only repeat the pieces.
        return self._flush() if self._is_partial else self._lines.say(text)

    def _flush(self) -> list[Event]:
        return self._lines.say(self._pieces.take())

    def _read_tool_call(self, line: Json) -> list[Event]:
        said = self._flush()
        use = read_tool_use(as_table(line.get("tool_call")))
        if use is None:
            return [*said, *self._lines.keep_unknown(line)]
        if use.name == "createPlan":
            self._plan = as_text(use.input.get("plan")) or self._plan
        key, given = read_id(line.get("call_id")), shrink(use.input)
        if line.get("subtype") != "completed":
            return [*said, start_tool(use.name, key, given)]
        return [*said, self._lines.finish_tool(use.name, key, given, use.status, use.result)]

    def _read_result(self, line: Json) -> list[Event]:
        said = self._flush()
        self._result = line
        used = as_table(line.get("usage"))
        if not used:
            return said
        counted: dict[str, Any] = {ours: as_count(used.get(theirs)) for ours, theirs in _TOKENS.items()}
        event = AgentUsage(**counted)
        self._lines.usage = event.count()
        return [*said, event]

    def _facts(self) -> dict[str, Any]:
        rejected = self._lines.counts["tools_rejected"]
        if not rejected or self._mode is not Mode.EDIT:
            return {}
        return {
            "note": (
                f"Cursor rejected {rejected} of {self._lines.counts['tools']} uses of tools. It rejects "
                "shell commands and web access unless agents.cursor.force or its own permissions allow them."
            )
        }

    def outcome(self, end: ProcessEnd, now: float) -> Outcome:
        """Return how the launch ended, judging by everything that was read."""
        plan = self._plan if self._mode is Mode.PLAN else ""
        # The result joins all messages, so it is the last resort.
        text = plan or self._lines.message or as_text((self._result or {}).get("result"))
        failure = self._failure(end, now, text)
        if failure is not None and failure.kind is FailureKind.NO_RESULT and self._is_plain(end, text):
            text = self._printed.take().rstrip()
            failure = FAILURES.judge_success(self._mode, text, 0, True, "")
        return self._lines.outcome(end, text, failure, self._facts())

    def _is_plain(self, end: ProcessEnd, text: str) -> bool:
        """Return whether the program printed text alone, and ended well."""
        return self._may_be_plain and end.exit.code == 0 and not text and self._result is None

    def _failure(self, end: ProcessEnd, now: float, text: str) -> Failure | None:
        result, counts = self._result, self._lines.counts
        if result is None:
            return FAILURES.judge_end(end, self._lines, now)
        if not result.get("is_error") and result.get("subtype") in (None, "success") and end.keeps_result:
            refused = counts["tools_rejected"]
            worked = refused < counts["tools"]
            return FAILURES.judge_success(self._mode, text, refused, worked, "agents.cursor.force")
        if end.failure(now, self._lines.plain_text) is None:
            return FAILURES.read_words(as_text(result.get("result")), end.err_tail, now)
        return FAILURES.judge_end(end, self._lines, now)


def _read_content(line: Json) -> str:
    content = as_table(line.get("message")).get("content")
    if isinstance(content, str):
        return content
    return "".join(as_text(as_table(part).get("text")) for part in as_list(content))
