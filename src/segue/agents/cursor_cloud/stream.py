"""Read the stream of a run: each of its events becomes an event of ours, or a count.

No event is fatal: unknown ones are stored in short form and counted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from segue.agents.cloud.calls import Freshness, SseFrame
from segue.agents.cloud.errors import CloudError, read_error
from segue.agents.cloud.transcript import Transcript
from segue.agents.cursor.lines import read_tool_use
from segue.agents.cursor_cloud.api import Status, parse_status
from segue.agents.local.lines import thinking_event
from segue.agents.local.values import as_table, as_text, clip, shrink, split
from segue.domain.events import AgentRaw, AgentText, AgentTool, Event
from segue.domain.text import AnswerText

_EVENT_CHARS = 16 * 1024
_MESSAGE_CHARS = 500


class MessageBuffer:
    """A message that comes in pieces."""

    def __init__(self) -> None:
        self._pending = ""
        self._said = AnswerText()
        self._has_words = False
        self._ended = ""

    @property
    def last(self) -> str:
        """The last message, as far as it came."""
        return str(self._said) if self._has_words else self._ended

    def add(self, piece: str) -> list[Event]:
        """Add a piece; a long message becomes several events."""
        self._pending += piece
        *ready, self._pending = list(split(self._pending, _EVENT_CHARS)) or [""]
        return [event for text in ready for event in self._event(text)]

    def flush(self) -> list[Event]:
        """Return the rest of the message, which is over."""
        events = self._event(self._pending)
        self._ended = self.last
        self._said.take()
        self._pending, self._has_words = "", False
        return events

    def _event(self, text: str) -> list[Event]:
        self._said.add(text)
        self._has_words = self._has_words or bool(text.strip())
        return [AgentText(text)] if text and self._has_words else []


def read_tool(data: Mapping[str, Any]) -> AgentTool:
    """Return the event for a `tool_call` of the stream."""
    call = {"name": as_text(data.get("name")) or "unknown", "arguments": data.get("args")}
    use = read_tool_use({"function": call, "result": data.get("result")})
    assert use is not None, "a call with a name is always understood"
    state = data.get("status")
    name, given, key = clip(use.name, 100), shrink(use.input), clip(str(data.get("callId") or ""), 200)
    if state == "running":
        return AgentTool(name, given, key, "started")
    status = use.status or ("error" if state == "error" else "")
    return AgentTool(name, given, key, "completed", status, shrink(use.result))


_SILENT = frozenset(
    {
        "token-delta",
        "step-started",
        "step-completed",
        "partial-tool-call",
        "tool-call-delta",
        "shell-output-delta",
        "user-message-appended",
        "tool-requests-listed",
    }
)
"""Rich events that come in large numbers and add nothing to other events."""

_TWINS = frozenset({"text-delta", "thinking-delta", "tool-call-started", "tool-call-completed"})
"""Rich events that repeat a simple one."""


class StreamReader:
    """Reads the stream of one run into its transcript."""

    def __init__(self, seen: Transcript) -> None:
        self._seen = seen
        self._message = MessageBuffer()
        self._thoughts = ""
        self.is_finished = False
        """True if the stream has reported the end of the run."""

    def read(self, frame: SseFrame, fresh: Freshness) -> None:
        """Read an event of the stream; raises CloudError if it reports that the stream failed."""
        data = parse_data(frame)
        if frame.event == "error":
            raise read_stream_error(data)
        self._seen.lost = self._seen.lost or frame.cut
        if frame.event in ("result", "done"):
            self.is_finished = True
        elif frame.event == "interaction_update":
            self._keep(self._read_rich(frame, data, fresh))
        elif fresh is Freshness.NEW:
            self._keep(self._read_simple(frame, data))

    def close(self) -> None:
        """Add what was held back."""
        self._keep([*self._flush_thought(), *self._message.flush()])
        self._seen.text = self._message.last

    def _read_simple(self, frame: SseFrame, data: Mapping[str, Any]) -> list[Event]:
        match frame.event:
            case "status":
                word = str(data.get("status"))
                self._seen.set_status(word, parse_status(word) is not Status.UNKNOWN)
                return []
            case "heartbeat":
                return []
            case "assistant":
                return [*self._flush_thought(), *self._message.add(as_text(data.get("text")))]
            case "thinking":
                return self._add_thought(data)
            case "tool_call":
                return self._read_tool(data)
            case _:
                return self._keep_unknown(frame, data)

    def _read_rich(self, frame: SseFrame, data: Mapping[str, Any], fresh: Freshness) -> list[Event]:
        kind = as_text(data.get("type"))
        call = as_table(data.get("toolCall"))
        if call:
            self._remember_plan(as_text(call.get("type")), as_table(call.get("args")))
        # Without an id it cannot be matched with its simple twin, which is always sent.
        if fresh is not Freshness.NEW or kind in _SILENT or (kind in _TWINS and not frame.id):
            return []
        match kind:
            case "text-delta":
                return [*self._flush_thought(), *self._message.add(as_text(data.get("text")))]
            case "thinking-delta":
                return self._add_thought(data)
            case "thinking-completed":
                return self._flush_thought()
            case "tool-call-started" | "tool-call-completed":
                return self._read_tool(_simplify(data, call, kind))
            case "turn-ended" | "summary" | "summary-started" | "summary-completed":
                return [_raw(kind, shrink(dict(data)))]
            case _:
                return self._keep_unknown(frame, data)

    def _keep_unknown(self, frame: SseFrame, data: Mapping[str, Any]) -> list[Event]:
        self._seen.count("unknown_events")
        return [*self._message.flush(), _raw(clip(frame.event, 100), shrink(dict(data)))]

    def _add_thought(self, data: Mapping[str, Any]) -> list[Event]:
        """Collect the pieces of a thought, of which there are hundreds, into one event."""
        self._thoughts += as_text(data.get("text"))
        return self._message.flush()

    def _flush_thought(self) -> list[Event]:
        text, self._thoughts = self._thoughts, ""
        return [thinking_event(text)] if text else []

    def _read_tool(self, data: Mapping[str, Any]) -> list[Event]:
        said = [*self._flush_thought(), *self._message.flush()]
        self._remember_plan(as_text(data.get("name")), as_table(data.get("args")))
        tool = read_tool(data)
        if tool.state == "completed":
            self._seen.count("tools", f"tools_{tool.status or 'unknown'}")
        return [*said, tool]

    def _remember_plan(self, name: str, args: Mapping[str, Any]) -> None:
        if name in ("createPlan", "create_plan"):
            self._seen.plan = as_text(args.get("plan")) or self._seen.plan

    def _keep(self, events: list[Event]) -> None:
        for event in events:
            self._seen.put(event)


def read_stream_error(data: Any) -> CloudError:
    """Return the error in an `error` event of a stream."""
    code, message = read_error(data)
    return CloudError(code or "read_stream_error", clip(message, _MESSAGE_CHARS) or "the stream failed")


def _simplify(data: Mapping[str, Any], call: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the rich form of a tool call in the shape of the simple one."""
    result = as_table(call.get("result"))
    answer: Any = call.get("result")
    if result.get("status") in ("success", "error"):
        answer = {result["status"]: result.get("value", result.get("error"))}
    return {
        "callId": data.get("callId"),
        "name": call.get("type"),
        "status": "completed" if kind == "tool-call-completed" else "running",
        "args": call.get("args"),
        "result": answer,
    }


def parse_data(frame: SseFrame) -> Mapping[str, Any]:
    """Return the data of an event; text if it is not JSON."""
    if frame.cut:
        return {"cut": True}
    try:
        # Databases refuse NaN and Infinity.
        return as_table(json.loads(frame.data, parse_constant=lambda _name: None))
    except (ValueError, RecursionError):
        return {"text": clip(frame.data, 2000)} if frame.data.strip() else {}


def _raw(kind: str, data: Any) -> Event:
    return AgentRaw(kind, data=data)
