"""The event stream of a run: its events, their ids, and how a reader follows or resumes it."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from segue.parts.sim.cloud.remote import Change
from segue.parts.sim.cloud.requests import CloudRefusal

_PIECE = 24
_PUBLIC_NAMES = {"shell": "run_terminal_cmd", "read": "read_file", "write": "edit_file", "edit": "edit_file"}
TERMINAL = frozenset({"FINISHED", "ERROR", "CANCELLED", "EXPIRED"})


class FeedEvent(Struct, frozen=True):
    """One event. A reader cannot resume from an event without an id."""

    id: str
    event: str
    data: str

    def encode(self) -> bytes:
        """Encode the event: lines end with LF, one space after each colon."""
        head = f"id: {self.id}\n" if self.id else ""
        return f"{head}event: {self.event}\ndata: {self.data}\n\n".encode()


def make_event(event: str, data: dict[str, Any], id_: str = "") -> FeedEvent:
    """Make an event with JSON data."""
    return FeedEvent(id_, event, json.dumps(data, ensure_ascii=False))


class Feed(Struct):
    """All events of a run so far; readers wait for more."""

    run_id: str
    status: str = "CREATING"
    events: list[FeedEvent] = field(default_factory=list)
    closed_at: float | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, *twins: tuple[str, dict[str, Any]]) -> None:
        """Add events that share one id: a simple one and its rich twin, or `result` and `done`."""
        id_ = f"{int(time.time() * 1000)}-{len(self.events)}"
        self.events.extend(make_event(event, data, id_) for event, data in twins)
        self._wake()

    def set_status(self, status: str) -> None:
        """Change the status that every reader sees first."""
        self.status = status
        self._wake()

    def close(self) -> None:
        """End the stream."""
        self.closed_at = time.monotonic()
        self._wake()

    def find_position(self, last_id: str | None) -> int:
        """Return where a reader continues after this id; events with the same id count as read."""
        if last_id is None:
            return 0
        for index in range(len(self.events) - 1, -1, -1):
            if self.events[index].id == last_id:
                return index + 1
        raise CloudRefusal("invalid_last_event_id")

    def is_expired(self, retention: float) -> bool:
        """Return whether the stream ended too long ago to be read."""
        return self.closed_at is not None and time.monotonic() - self.closed_at >= retention

    async def follow(self, position: int, heartbeat: float) -> AsyncIterator[bytes]:
        """Yield the status and all events from the position on, until the end."""
        shown = ""
        while True:
            if self.status != shown:
                shown = self.status
                yield self.make_status_event().encode()
            elif position < len(self.events):
                position += 1
                yield self.events[position - 1].encode()
            elif self.closed_at is not None:
                return
            elif not await self._wait(heartbeat):
                yield make_event("heartbeat", {}).encode()

    def make_status_event(self) -> FeedEvent:
        """Make an event of the status, without an id."""
        return make_event("status", {"runId": self.run_id, "status": self.status})

    async def _wait(self, patience: float) -> bool:
        changed = self._changed
        try:
            async with asyncio.timeout(patience):
                await changed.wait()
        except TimeoutError:
            return False
        return True

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def think(feed: Feed, text: str) -> None:
    """Add thoughts in pieces."""
    for piece in _split(text):
        feed.add(
            ("thinking", {"text": piece}), ("interaction_update", {"type": "thinking-delta", "text": piece})
        )
    if text:
        feed.add(("interaction_update", {"type": "thinking-completed", "thinkingDurationMs": 10}))


def say(feed: Feed, text: str) -> None:
    """Add the reply in pieces."""
    for piece in _split(text):
        feed.add(
            ("assistant", {"text": piece}), ("interaction_update", {"type": "text-delta", "text": piece})
        )


def use_tools(feed: Feed, tools: Sequence[Mapping[str, Any]], change: Change) -> None:
    """Add the tool calls of the script, then one for every file that is written or deleted."""
    for tool in tools:
        _use_tool(feed, tool)
    for path, data in change.write.items():
        args = {"path": path, "fileText": data.decode()}
        result = {"path": path, "linesCreated": data.count(b"\n"), "fileSize": len(data)}
        _use_tool(feed, {"type": "write", "args": args, "result": result})
    for path in change.delete:
        _use_tool(feed, {"type": "delete", "name": "delete_file", "args": {"path": path}, "result": {}})


def _use_tool(feed: Feed, tool: Mapping[str, Any]) -> None:
    kind = tool.get("type", "shell")
    name = tool.get("name", _PUBLIC_NAMES.get(kind, kind))
    args, result = tool.get("args", {}), tool.get("result", {})
    end = tool.get("status", "completed")
    call = {"callId": f"toolu_{uuid.uuid4().hex}", "name": name}
    rich = {"callId": call["callId"], "modelCallId": call["callId"]}
    ok = end != "error"
    outcome = {"status": "success", "value": result} if ok else {"status": "error", "error": result}
    shown = {"success" if ok else "error": result}

    def add(simple: dict[str, Any], kind_of_update: str, **more: Any) -> None:
        tool_call = {"type": kind, "args": args, **more}
        update = {"type": kind_of_update, **rich, "toolCall": tool_call}
        feed.add(("tool_call", {**call, "args": args, **simple}), ("interaction_update", update))

    add({"status": "running"}, "tool-call-started")
    add({"status": end, "result": shown}, "tool-call-completed", result=outcome)


def _split(text: str) -> list[str]:
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]
