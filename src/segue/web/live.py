"""Live updates for open pages: one thread reads the store, however many pages are open."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from segue.domain.errors import SegueError
from segue.domain.events import Recorded
from segue.domain.text import clean, plain
from segue.reports.event_text import describe_event, locate_event
from segue.runtime.app import App

if TYPE_CHECKING:
    from segue.store.store import Store


_log = logging.getLogger(__name__)
BATCH = 100
"""Events in one message."""

WAITING = 30
"""The most messages queued for a slow page; beyond that it reloads everything."""

BEHIND = 2000
"""A page that reconnects after missing more events than this reloads everything, too."""

PAUSE = 0.5
"""Seconds between updates, so that a busy run does not make pages render all the time."""

BEAT = 15.0
_WATCH = 1.0
_LONGEST = 300


class StreamMessage(Struct, frozen=True):
    """One message of the stream."""

    kind: str
    data: str = "{}"
    """JSON, encoded once for all pages."""
    id: str = ""


class Listener(Struct, eq=False):
    """One open page."""

    loop: asyncio.AbstractEventLoop
    run: str
    seq: int
    """The last event it received."""
    waiting: deque[StreamMessage] = field(default_factory=deque)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, message: StreamMessage) -> None:
        """Queue a message; called on the loop of the page."""
        if message.kind == "change" and self.waiting and self.waiting[-1].kind == "change":
            self.waiting.pop()
        if len(self.waiting) >= WAITING:
            self.waiting.clear()
            message = StreamMessage("reset", id=message.id)
        self.waiting.append(message)
        self.arrived.set()


class LiveUpdates:
    """Sends changes of the store to listeners."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._listeners: set[Listener] = set()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.version = 1
        """The number of changes seen so far."""

    @property
    def is_watching(self) -> bool:
        """True from the first listener on: only then the version is kept up to date."""
        return self._thread is not None

    def close(self) -> None:
        """End all streams and the thread."""
        self._ended.set()
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            _deliver(listener, StreamMessage("end"))
        if self._thread is not None:
            self._thread.join()

    async def stream(self, run: str, after: int | None) -> AsyncIterator[StreamMessage]:
        """Yield the messages for one page, from now on, or from the event after which it was disconnected."""
        loop = asyncio.get_running_loop()
        last = await loop.run_in_executor(None, self._find_last, run)
        seq, lost = resume_from(after, last)
        with self._register(Listener(loop, run, seq)) as listener:
            yield StreamMessage("reset" if lost else "hello", id=str(seq) if run else "")
            while not self._ended.is_set():
                try:
                    async with asyncio.timeout(BEAT):
                        await listener.arrived.wait()
                except TimeoutError:
                    yield StreamMessage("beat")
                    continue
                listener.arrived.clear()
                while listener.waiting:
                    yield listener.waiting.popleft()

    @contextmanager
    def _register(self, listener: Listener) -> Iterator[Listener]:
        with self._lock:
            self._listeners.add(listener)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="segue-web-live", daemon=True)
                self._thread.start()
        try:
            yield listener
        finally:
            with self._lock:
                self._listeners.discard(listener)

    def _find_last(self, run: str) -> int:
        if not run:
            return 0
        with self._app.store(read_only=True) as store:
            return find_last_event(store, run)

    def _watch(self) -> None:
        """Wait for a change, read what is new, send it to all listeners."""
        while not self._ended.is_set():
            try:
                with self._app.store(read_only=True) as store:
                    self._follow(store)
            except SegueError as error:
                _log.info("changes cannot be read now: %s", error.message)
                self._ended.wait(_WATCH)  # the database is unavailable; pages see that when they request data

    def _follow(self, store: Store) -> None:
        while not self._ended.is_set():
            if store.wait_for_change(_WATCH):
                self.version += 1
                self._send_change()
            self._send_events(store)
            self._ended.wait(PAUSE)

    def _send_change(self) -> None:
        message = StreamMessage("change", json.dumps({"version": self.version}))
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            _deliver(listener, message)

    def _send_events(self, store: Store) -> None:
        """Read the new events of each watched run once, for all of its pages."""
        with self._lock:
            watched: dict[str, list[Listener]] = {}
            for listener in self._listeners:
                if listener.run:
                    watched.setdefault(listener.run, []).append(listener)
        for run, listeners in watched.items():
            self._send_run(store, run, listeners)

    def _send_run(self, store: Store, run: str, listeners: list[Listener]) -> None:
        after = min(listener.seq for listener in listeners)
        while not self._ended.is_set() and (batch := list(store.events(run, after, BATCH))):
            before, after = after, batch[-1].seq
            lines = [make_line(event) for event in batch]
            for_all = _make_events(lines, before)
            for listener in listeners:
                if listener.seq < after:
                    _deliver(
                        listener, for_all if listener.seq <= before else _make_events(lines, listener.seq)
                    )
                    listener.seq = after
            time.sleep(0.005)  # let the loop that serves the pages run


def _make_events(lines: list[dict[str, Any]], after: int) -> StreamMessage:
    new = [line for line in lines if line["seq"] > after]
    return StreamMessage("events", json.dumps({"events": new}, separators=(",", ":")), str(lines[-1]["seq"]))


def find_last_event(store: Store, run: str) -> int:
    """Return the number of the last event of a run; 0 if there is none."""
    [row] = store.query(
        "SELECT coalesce(max(seq), 0) AS last FROM orchestrator_events WHERE run_id = ?", [run]
    )
    return int(row["last"])


def make_line(event: Recorded) -> dict[str, Any]:
    """Convert an event to a line of the feed."""
    try:
        text = describe_event(event)
    except (KeyError, TypeError, ValueError):  # an event of another version, or of a plug-in
        text = None
    return {
        "seq": event.seq,
        "ts": event.ts,
        "type": event.type,
        "place": plain(clean(locate_event(event)), 60),
        "text": plain(clean(text[: 8 * _LONGEST]), _LONGEST) if text else "",
    }


def resume_from(after: int | None, last: int) -> tuple[int, bool]:
    """Return the event after which a page continues, and whether it missed too much to catch up."""
    if after is None:
        return last, False
    lost = after > last or last - after > BEHIND
    return (last if lost else after), lost


def _deliver(listener: Listener, message: StreamMessage) -> None:
    with suppress(RuntimeError):  # its loop has ended
        listener.loop.call_soon_threadsafe(listener.put, message)


async def to_sse(messages: AsyncIterator[StreamMessage]) -> AsyncIterator[str]:
    """Encode messages as server-sent events; a disconnected page reconnects after two seconds."""
    yield "retry: 2000\n\n"
    async for message in messages:
        head = f"id: {message.id}\n" if message.id else ""
        yield f"{head}event: {message.kind}\ndata: {message.data}\n\n"
