"""Reads what a run says: each event of its stream becomes an event of ours, or a count.

Nothing in here is fatal: what is unknown is kept in short and counted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from segue.agents.cursor.tools import bounded, clip, table
from segue.agents.cursor_cloud.messages import Message, tool_of
from segue.agents.cursor_cloud.sse import Frame, Freshness
from segue.agents.cursor_cloud.status import Status, normalised
from segue.domain.event import Event, EventType
from segue.system.redact import Redactor

_WORDS = 20
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
"""Rich events that come in masses and say nothing that another event does not."""

_TWINS = frozenset({"text-delta", "thinking-delta", "tool-call-started", "tool-call-completed"})
"""Rich events that have a simple twin."""


class Reading:
    """Remembers of a run what its outcome needs, whatever else was said."""

    def __init__(self, redactor: Redactor, kept_bytes: int) -> None:
        self._redactor = redactor
        self._room = kept_bytes
        self._left_out = 0
        self._message = Message(redactor)
        self._thoughts = Counter[str]()
        self._counts = Counter[str]()
        self._words: set[str] = set()
        self._word = ""
        self.plan = ""
        self.finished = False
        """Whether the stream has told the run's end."""

    @property
    def text(self) -> str:
        """The last thing the agent said."""
        return self._message.last

    def read(self, frame: Frame, fresh: Freshness) -> list[Event]:
        """The events in an event of the stream."""
        data = parsed(frame)
        if frame.event in ("result", "done"):
            self.finished = True
            return []
        if frame.event == "interaction_update":
            events = self._rich(frame, data, fresh)
        elif fresh is Freshness.NEW:
            events = self._simple(frame, data)
        else:
            events = []
        return self._affordable(events, len(frame.data))

    def status(self, word: str) -> list[Event]:
        """An event when the status is another than before; unknown words are told once."""
        if word == self._word:
            return []
        self._word = word
        if normalised(word) is not Status.UNKNOWN:
            return [_raw("status", {"status": word})]
        if word in self._words or len(self._words) >= _WORDS:
            return []
        self._words.add(word)
        note = "a status nobody knows; the run is watched until its deadline"
        return [_raw("unknown_status", {"status": clip(word, 100), "note": note})]

    def close(self) -> list[Event]:
        """What was held back, and how much had to be left out."""
        events = self._affordable([*self._thought(), *self._message.flush()], 0)
        if self._left_out:
            events.append(Event(EventType.AGENT_OUTPUT, {"stream": "out", "cut_bytes": self._left_out}))
        return events

    def facts(self) -> dict[str, Any]:
        """What the last event says beside the outcome."""
        return dict(sorted(self._counts.items()))

    def _simple(self, frame: Frame, data: Mapping[str, Any]) -> list[Event]:
        match frame.event:
            case "status":
                return self.status(str(data.get("status")))
            case "heartbeat":
                return []
            case "assistant":
                return [*self._thought(), *self._message.add(_string(data.get("text")))]
            case "thinking":
                return self._thinks(data)
            case "tool_call":
                return self._tool(data)
            case _:
                return self._unknown(frame, data)

    def _rich(self, frame: Frame, data: Mapping[str, Any], fresh: Freshness) -> list[Event]:
        kind = _string(data.get("type"))
        call = table(data.get("toolCall"))
        if call:
            self._remember_plan(_string(call.get("type")), table(call.get("args")))
        # Without an id nobody can tell whose twin it is; the simple one is always sent.
        if fresh is not Freshness.NEW or kind in _SILENT or (kind in _TWINS and not frame.id):
            return []
        match kind:
            case "text-delta":
                return [*self._thought(), *self._message.add(_string(data.get("text")))]
            case "thinking-delta":
                return self._thinks(data)
            case "thinking-completed":
                return self._thought()
            case "tool-call-started" | "tool-call-completed":
                return self._tool(_as_simple(data, call, kind))
            case "turn-ended" | "summary" | "summary-started" | "summary-completed":
                return [_raw(kind, bounded(dict(data)))]
            case _:
                return self._unknown(frame, data)

    def _unknown(self, frame: Frame, data: Mapping[str, Any]) -> list[Event]:
        self._counts["unknown_events"] += 1
        return [*self._message.flush(), _raw(clip(frame.event, 100), bounded(dict(data)))]

    def _thinks(self, data: Mapping[str, Any]) -> list[Event]:
        """Hundreds of these come: one event per thought says how long it was."""
        self._thoughts["deltas"] += 1
        self._thoughts["chars"] += len(_string(data.get("text")))
        return self._message.flush()

    def _thought(self) -> list[Event]:
        if not self._thoughts:
            return []
        data = {"type": "thinking", "deltas": self._thoughts["deltas"], "chars": self._thoughts["chars"]}
        self._thoughts.clear()
        return [Event(EventType.AGENT_RAW, data)]

    def _tool(self, data: Mapping[str, Any]) -> list[Event]:
        said = [*self._thought(), *self._message.flush()]
        self._remember_plan(_string(data.get("name")), table(data.get("args")))
        told = tool_of(data)
        if told["state"] == "completed":
            self._counts["tools"] += 1
            self._counts[f"tools_{told['status'] or 'unknown'}"] += 1
        return [*said, Event(EventType.AGENT_TOOL, told)]

    def _remember_plan(self, name: str, args: Mapping[str, Any]) -> None:
        if name in ("createPlan", "create_plan"):
            self.plan = self._redactor.text(_string(args.get("plan"))) or self.plan

    def _affordable(self, events: list[Event], size: int) -> list[Event]:
        """The events, without secrets, as long as there is room for them."""
        kept = []
        for event in events:
            if self._room <= 0:
                self._left_out += size
                continue
            data = self._redactor.data(dict(event.data))
            self._room -= len(str(data))
            kept.append(Event(event.type, data))
        return kept


def _as_simple(data: Mapping[str, Any], call: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The rich form of a tool's use in the words of the simple one."""
    result = table(call.get("result"))
    told: Any = call.get("result")
    if result.get("status") in ("success", "error"):
        told = {result["status"]: result.get("value", result.get("error"))}
    return {
        "callId": data.get("callId"),
        "name": call.get("type"),
        "status": "completed" if kind == "tool-call-completed" else "running",
        "args": call.get("args"),
        "result": told,
    }


def parsed(frame: Frame) -> Mapping[str, Any]:
    """The data of an event; what is no JSON is its text."""
    if frame.cut:
        return {"cut": True}
    try:
        # Numbers that are none, such as NaN, are refused by databases.
        return table(json.loads(frame.data, parse_constant=lambda _name: None))
    except (ValueError, RecursionError):
        return {"text": clip(frame.data, 2000)} if frame.data.strip() else {}


def _raw(kind: str, data: Any) -> Event:
    return Event(EventType.AGENT_RAW, {"type": kind, "data": data})


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""
