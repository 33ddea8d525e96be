"""One request to a cloud agent's API and what its answer contains; streams of server-sent events.

Streams are read in bounded memory, and resumed after a broken connection.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from datetime import datetime
from enum import Enum, auto
from typing import Any

from msgspec import Struct

from segue.agents.cloud.errors import make_bad_answer, make_unreachable, read_refusal
from segue.domain.text import LONGEST_ANSWER
from segue.system.http.client import HttpClient, HttpError, HttpResponse, parse_date
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


_MILLISECONDS = 1e11
"""Larger numbers are no seconds since 1970: they are milliseconds."""


async def send(http: HttpClient, method: str, path: str, deadline: float, **more: Any) -> HttpResponse:
    """Send a request; raises CloudError unless it succeeds."""
    try:
        answer = await http.request(method, path, deadline=deadline, **more)
    except HttpError as error:
        raise make_unreachable(error) from None
    if not 200 <= answer.status < 300:
        raise read_refusal(answer)
    return answer


async def ask(http: HttpClient, method: str, path: str, deadline: float, **more: Any) -> Mapping[str, Any]:
    """Send a request and return the object in its answer."""
    return read_body(await send(http, method, path, deadline, **more))


async def listen(
    http: HttpClient, path: str, headers: Mapping[str, str], silence: float
) -> AsyncGenerator[SseFrame | None, None]:
    """Yield the events of a stream, after a None that says that it is open; raises CloudError."""
    parser = SseParser()
    try:
        asked = {"Accept": "text/event-stream", **headers}
        async with http.stream(path, asked, silence) as (head, pieces):
            if head.status != 200:
                raise read_refusal(head)
            yield None
            async with aclosing(pieces):
                async for piece in pieces:
                    for frame in parser.feed(piece):
                        yield frame
    except HttpError as error:
        raise make_unreachable(error) from None


def read_body(answer: HttpResponse) -> Mapping[str, Any]:
    """Return the object in an answer."""
    try:
        found = answer.json()
    except ValueError:
        raise make_bad_answer(answer, "it is not JSON") from None
    if not isinstance(found, Mapping):
        raise make_bad_answer(answer, "it is not an object")
    return found


def read_name(answer: HttpResponse, found: Mapping[str, Any], field: str, what: str) -> str:
    """Return the id of what was created; an answer without one does not say whether anything was."""
    name = found.get(field)
    if not isinstance(name, str) or not name:
        raise make_bad_answer(answer, f"no id of {what}")
    return name


def compute_age(answer: HttpResponse, created: Any) -> float | None:
    """Return the seconds since something was created, by the server's clock; ours may be wrong."""
    now, then = parse_date(answer.headers.get("date", "")), parse_time(created)
    return max(0.0, now - then) if now is not None and then is not None else None


def parse_time(text: Any) -> float | None:
    """Return a time as seconds since the epoch; None if it is invalid or has no zone."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        return text / 1000 if text > _MILLISECONDS else float(text)
    try:
        then = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return then.timestamp() if then.tzinfo else None
