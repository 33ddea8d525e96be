"""Read server-sent events in bounded memory, and know where to resume after a broken connection."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto

from msgspec import Struct

from segue.domain.text import LONGEST_ANSWER
from segue.system.lines import LineFramer

MAX_EVENT = 4 * LONGEST_ANSWER


class SseFrame(Struct, frozen=True):
    """One server-sent event; `cut` if it was too large and its data was dropped."""

    id: str
    event: str
    data: str
    cut: bool = False


class SseParser:
    """Splits bytes into events. Lines end with LF or CRLF; an empty line ends an event."""

    def __init__(self, max_event: int = MAX_EVENT) -> None:
        self._max = max_event
        self._lines = LineFramer(max_event)
        self._clear()

    def feed(self, data: bytes) -> Iterator[SseFrame]:
        """Yield the events that this piece completes."""
        for line in self._lines.feed(data):
            if line.cut:
                self._cut = True
            elif line.text:
                self._take(line.text)
            elif (frame := self._finish()) is not None:
                yield frame

    def _take(self, line: str) -> None:
        """Read a field; comments and fields that we do not use are passed over."""
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id" and "\0" not in value:
            self._id = value
        elif name == "event":
            self._event = value
        elif name == "data":
            self._add(value)

    def _add(self, value: str) -> None:
        self._size += len(value) + 1
        if self._size > self._max:
            self._cut = True
            self._data.clear()
        elif not self._cut:
            self._data.append(value)

    def _finish(self) -> SseFrame | None:
        there = self._data or self._cut
        data = "" if self._cut else "\n".join(self._data)
        frame = SseFrame(self._id, self._event or "message", data, self._cut)
        self._clear()
        return frame if there else None

    def _clear(self) -> None:
        self._id = self._event = ""
        self._data: list[str] = []
        self._size = 0
        self._cut = False


class Freshness(Enum):
    """How an event relates to those seen before."""

    NEW = auto()
    TWIN = auto()
    """It has the id of the event before it and repeats that in another form."""
    SEEN = auto()


class Resume:
    """Where to resume. An id is complete when the next one was seen: its twin may be missing."""

    def __init__(self) -> None:
        self.last_id: str | None = None
        self._current = ""
        self._events: set[str] = set()

    def note(self, frame: SseFrame) -> Freshness:
        """Record an event, and return whether it is new."""
        if not frame.id:
            return Freshness.NEW
        if frame.id != self._current:
            self.last_id = self._current or None
            self._current, self._events = frame.id, {frame.event}
            return Freshness.NEW
        if frame.event in self._events:
            return Freshness.SEEN
        self._events.add(frame.event)
        return Freshness.TWIN
