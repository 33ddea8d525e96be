"""What happens, told to all open pages: one thread reads the store, however many pages look on."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from segue.domain.errors import SegueError
from segue.domain.event import Recorded
from segue.domain.plain import clean, plain
from segue.ports import Store
from segue.reports.event_text import describe_event, locate_event
from segue.runtime.wiring import App

BATCH = 100
"""Events in one message."""

WAITING = 30
"""Messages that wait for a slow page; when there are more, it is told to look at everything anew."""

BEHIND = 2000
"""A page that comes back and has missed more events than these looks at everything anew, too."""

PAUSE = 0.5
"""Pages are not told more often: what is drawn is drawn anew that often, whatever a run does."""

BEAT = 15.0
_WATCH = 1.0
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the stream."""

    kind: str
    data: str = "{}"
    """JSON, written once for all pages."""
    id: str = ""


@dataclass(slots=True, eq=False)
class Listener:
    """One open page."""

    loop: asyncio.AbstractEventLoop
    run: str
    seq: int
    """The last event it was told of."""
    waiting: deque[Message] = field(default_factory=deque)
    bell: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, message: Message) -> None:
        """Leave a message; called on the page's own loop."""
        if message.kind == "change" and self.waiting and self.waiting[-1].kind == "change":
            self.waiting.pop()
        if len(self.waiting) >= WAITING:
            self.waiting.clear()
            message = Message("reset", id=message.id)
        self.waiting.append(message)
        self.bell.set()


class Live:
    """Tells listeners about changes of the store."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._listeners: set[Listener] = set()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.version = 1
        """Counts the changes that were seen."""

    @property
    def watching(self) -> bool:
        """Whether the version is kept: from the first listener on."""
        return self._thread is not None

    def close(self) -> None:
        """End all streams and the thread."""
        self._ended.set()
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            _tell(listener, Message("end"))
        if self._thread is not None:
            self._thread.join()

    async def stream(self, run: str, after: int | None) -> AsyncIterator[Message]:
        """The messages for one page, from now on, or from the event after which it was cut off."""
        loop = asyncio.get_running_loop()
        last = await loop.run_in_executor(None, self._last, run)
        seq, lost = _resumed(after, last)
        with self._listening(Listener(loop, run, seq)) as listener:
            yield Message("reset" if lost else "hello", id=str(seq) if run else "")
            while not self._ended.is_set():
                try:
                    async with asyncio.timeout(BEAT):
                        await listener.bell.wait()
                except TimeoutError:
                    yield Message("beat")
                    continue
                listener.bell.clear()
                while listener.waiting:
                    yield listener.waiting.popleft()

    @contextmanager
    def _listening(self, listener: Listener) -> Iterator[Listener]:
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

    def _last(self, run: str) -> int:
        if not run:
            return 0
        with self._app.store(read_only=True) as store:
            return last_event(store, run)

    def _watch(self) -> None:
        """The one reader: waits for a change, reads what is new, tells everybody."""
        while not self._ended.is_set():
            try:
                with self._app.store(read_only=True) as store:
                    self._follow(store)
            except SegueError:
                self._ended.wait(_WATCH)  # the database is away; the pages hear of it when they ask

    def _follow(self, store: Store) -> None:
        while not self._ended.is_set():
            if store.wait_for_change(_WATCH):
                self.version += 1
                self._announce()
            self._tell_events(store)
            self._ended.wait(PAUSE)

    def _announce(self) -> None:
        message = Message("change", json.dumps({"version": self.version}))
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            _tell(listener, message)

    def _tell_events(self, store: Store) -> None:
        """Read the new events of each run that somebody looks at, once for all of its pages."""
        with self._lock:
            watched: dict[str, list[Listener]] = {}
            for listener in self._listeners:
                if listener.run:
                    watched.setdefault(listener.run, []).append(listener)
        for run, listeners in watched.items():
            self._tell_run(store, run, listeners)

    def _tell_run(self, store: Store, run: str, listeners: list[Listener]) -> None:
        after = min(listener.seq for listener in listeners)
        while not self._ended.is_set() and (batch := list(store.events(run, after, BATCH))):
            before, after = after, batch[-1].seq
            told = [line_of(event) for event in batch]
            for_all = _events(told, before)
            for listener in listeners:
                if listener.seq < after:
                    _tell(listener, for_all if listener.seq <= before else _events(told, listener.seq))
                    listener.seq = after
            time.sleep(0.005)  # the loop that serves the pages gets its turn


def _events(told: list[dict[str, Any]], after: int) -> Message:
    lines = [line for line in told if line["seq"] > after]
    return Message("events", json.dumps({"events": lines}, separators=(",", ":")), str(told[-1]["seq"]))


def last_event(store: Store, run: str) -> int:
    """The number of the last event of a run; 0 when there is none."""
    [row] = store.query(
        "SELECT coalesce(max(seq), 0) AS last FROM orchestrator_events WHERE run_id = ?", [run]
    )
    return int(row["last"])


def line_of(event: Recorded) -> dict[str, Any]:
    """An event as a line of the feed."""
    try:
        said = describe_event(event)
    except (KeyError, TypeError, ValueError):  # an event of another version, or of somebody's own making
        said = None
    return {
        "seq": event.seq,
        "ts": event.ts,
        "type": event.type,
        "place": plain(clean(locate_event(event)), 60),
        "text": plain(clean(said[: 8 * _LONGEST]), _LONGEST) if said else "",
    }


def _resumed(after: int | None, last: int) -> tuple[int, bool]:
    """From which event on a page is told, and whether it has missed too much to be told all of it."""
    if after is None:
        return last, False
    lost = after > last or last - after > BEHIND
    return (last if lost else after), lost


def _tell(listener: Listener, message: Message) -> None:
    with suppress(RuntimeError):  # its loop has ended
        listener.loop.call_soon_threadsafe(listener.put, message)
