"""Read server-sent events in bounded memory, and know where to resume after a broken connection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

MAX_EVENT = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SseFrame:
    """One server-sent event; `cut` if it was too large and its data was dropped."""

    id: str
    event: str
    data: str
    cut: bool = False


class SseParser:
    """Splits bytes into events. Lines end with LF or CRLF; an empty line ends an event."""

    def __init__(self, max_event: int = MAX_EVENT) -> None:
        self._max = max_event
        self._line = bytearray()
        self._searched = 0
        self._skipping = False
        self._clear()

    def feed(self, data: bytes) -> Iterator[SseFrame]:
        """Yield the events that this piece completes."""
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
        """Drop a line that is too long, with everything that is still to come of it."""
        self._line.clear()
        self._searched = 0
        self._skipping = self._cut = True

    def _take(self, line: bytes) -> SseFrame | None:
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
                pass  # a comment, or a field that we do not use
        return None

    def _add(self, value: bytes) -> None:
        self._size += len(value) + 1
        if self._size > self._max:
            self._cut = True
            self._data.clear()
        elif not self._cut:
            self._data.append(value)

    def _finish(self) -> SseFrame | None:
        there = self._data or self._cut
        data = b"" if self._cut else b"\n".join(self._data)
        frame = SseFrame(self._id, self._event or "message", data.decode("utf-8", "replace"), self._cut)
        self._clear()
        return frame if there else None

    def _clear(self) -> None:
        self._id = self._event = ""
        self._data: list[bytes] = []
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
