"""Reads server-sent events in bounded memory, and knows where to go on after the connection broke."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

MAX_EVENT = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Frame:
    """One event. `cut`: it was too large, and its data was left out."""

    id: str
    event: str
    data: str
    cut: bool = False


class SseParser:
    """Cuts bytes into events; lines end with LF or CRLF, an empty line ends an event."""

    def __init__(self, max_event: int = MAX_EVENT) -> None:
        self._max = max_event
        self._line = bytearray()
        self._searched = 0
        self._skipping = False
        self._clear()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The events that are complete with this piece. What is never completed is never given."""
        self._line += data
        while (end := self._line.find(b"\n", self._searched)) >= 0:
            line = bytes(self._line[:end]).removesuffix(b"\r")
            del self._line[: end + 1]
            self._searched = 0
            if self._skipping:
                self._skipping = False
            elif (frame := self._take(line)) is not None:
                yield frame
        self._searched = len(self._line)
        if len(self._line) > self._max:
            self._skip()

    def _skip(self) -> None:
        """The line is too long to be held: forget it and whatever is still to come of it."""
        self._line.clear()
        self._searched = 0
        self._skipping = self._cut = True

    def _take(self, line: bytes) -> Frame | None:
        if not line:
            return self._finish()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"id" if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
            case b"event":
                self._event = value.decode("utf-8", "replace")
            case b"data":
                self._add(value)
            case _:
                pass  # a comment, or a field that is not for us
        return None

    def _add(self, value: bytes) -> None:
        self._size += len(value) + 1
        if self._size > self._max:
            self._cut = True
            self._data.clear()
        elif not self._cut:
            self._data.append(value)

    def _finish(self) -> Frame | None:
        there = self._data or self._cut
        data = b"" if self._cut else b"\n".join(self._data)
        frame = Frame(self._id, self._event or "message", data.decode("utf-8", "replace"), self._cut)
        self._clear()
        return frame if there else None

    def _clear(self) -> None:
        self._id = self._event = ""
        self._data: list[bytes] = []
        self._size = 0
        self._cut = False


class Freshness(Enum):
    """What an event is to somebody who may have seen it before."""

    NEW = auto()
    TWIN = auto()
    """It shares its id with the event before it and tells the same in other words."""
    SEEN = auto()


class Resume:
    """Where to go on. An id is only resumed from once the next one was seen: a twin may be missing."""

    def __init__(self) -> None:
        self.last_id: str | None = None
        self._current = ""
        self._events: set[str] = set()

    def note(self, frame: Frame) -> Freshness:
        """Take note of an event, and say whether it is new."""
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
