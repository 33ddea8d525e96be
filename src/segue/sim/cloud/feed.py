"""The event stream of a run: what was said, under which id, and how a reader follows or resumes it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from segue.sim.cloud.answers import Refusal

TERMINAL = frozenset({"FINISHED", "ERROR", "CANCELLED", "EXPIRED"})


@dataclass(frozen=True, slots=True)
class Frame:
    """One event. Without an id it is not part of what can be resumed."""

    id: str
    event: str
    data: str

    def encode(self) -> bytes:
        """The event on the wire: lines end with LF, one blank after each colon."""
        head = f"id: {self.id}\n" if self.id else ""
        return f"{head}event: {self.event}\ndata: {self.data}\n\n".encode()


def frame(event: str, data: dict[str, Any], id_: str = "") -> Frame:
    """An event with JSON data."""
    return Frame(id_, event, json.dumps(data, ensure_ascii=False))


@dataclass(slots=True)
class Feed:
    """Everything a run has said so far, and a bell for those who wait for more."""

    run_id: str
    status: str = "CREATING"
    frames: list[Frame] = field(default_factory=list)
    closed_at: float | None = None
    _bell: asyncio.Event = field(default_factory=asyncio.Event)

    def say(self, *twins: tuple[str, dict[str, Any]]) -> None:
        """Add events that share one id: a simple one and its rich twin, or `result` and `done`."""
        id_ = f"{int(time.time() * 1000)}-{len(self.frames)}"
        self.frames.extend(frame(event, data, id_) for event, data in twins)
        self._ring()

    def turn(self, status: str) -> None:
        """Change the status that every reader is shown first."""
        self.status = status
        self._ring()

    def close(self) -> None:
        """Nothing more will come."""
        self.closed_at = time.monotonic()
        self._ring()

    def position(self, last_id: str | None) -> int:
        """Where a reader who has seen this id goes on; twins of it count as seen."""
        if last_id is None:
            return 0
        for index in range(len(self.frames) - 1, -1, -1):
            if self.frames[index].id == last_id:
                return index + 1
        raise Refusal("invalid_last_event_id")

    def expired(self, retention: float) -> bool:
        """Whether it has ended too long ago to be read."""
        return self.closed_at is not None and time.monotonic() - self.closed_at >= retention

    async def follow(self, position: int, heartbeat: float) -> AsyncIterator[Frame]:
        """The status, what was said since, and what will be said, until the end."""
        shown = ""
        while True:
            if self.status != shown:
                shown = self.status
                yield self.status_frame()
            elif position < len(self.frames):
                position += 1
                yield self.frames[position - 1]
            elif self.closed_at is not None:
                return
            elif not await self._rung(heartbeat):
                yield frame("heartbeat", {})

    def status_frame(self) -> Frame:
        """The status as an event, without an id."""
        return frame("status", {"runId": self.run_id, "status": self.status})

    async def _rung(self, patience: float) -> bool:
        bell = self._bell
        try:
            async with asyncio.timeout(patience):
                await bell.wait()
        except TimeoutError:
            return False
        return True

    def _ring(self) -> None:
        self._bell.set()
        self._bell = asyncio.Event()
