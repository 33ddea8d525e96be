"""Wait for changes that other processes make to the database, without polling it all the time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from segue.store.database import EVERY_SECOND, Database, Watch

T = TypeVar("T")


class Changes:
    """Wakes waiters when the database has changed."""

    def __init__(self, database: Database, is_away: Callable[[], bool] = lambda: False) -> None:
        self._database = database
        self._is_away = is_away
        self._bells: dict[asyncio.Event, str] = {}
        """Who waits, and for which topic."""
        self._watch: Watch | None = None

    async def until(
        self, find: Callable[[], Awaitable[T | None]], topic: str, seconds: float | None = None
    ) -> T | None:
        """Call `find` now and after each change of the topic until it returns something.

        None when the time is up.
        """
        found = await find()
        if found is not None or seconds == 0:
            return found
        loop = asyncio.get_running_loop()
        deadline = None if seconds is None else loop.time() + seconds
        with self._bell(topic) as bell:
            while (found := await find()) is None:
                pause = self._listen()
                if deadline is not None:
                    pause = min(pause, deadline - loop.time())
                if pause <= 0:
                    return None
                await _ring(bell, pause)
        return found

    @contextmanager
    def _bell(self, topic: str) -> Iterator[asyncio.Event]:
        bell = asyncio.Event()
        self._bells[bell] = topic
        try:
            self._listen()
            yield bell
        finally:
            del self._bells[bell]
            if not self._bells:
                self._deafen()

    def _listen(self) -> float:
        """Make sure that changes are heard of, and return after how many seconds to look anyway."""
        if self._is_away():
            return EVERY_SECOND
        if self._watch is None or self._watch.is_lost:
            self._deafen()
            self._watch = self._database.watch(asyncio.get_running_loop(), self._ring)
        return self._watch.pause

    def _deafen(self) -> None:
        if self._watch is not None:
            self._watch.stop()
            self._watch = None

    def _ring(self, topic: str) -> None:
        for bell, wanted in self._bells.items():
            if not topic or topic == wanted:
                bell.set()


async def _ring(bell: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await bell.wait()
    bell.clear()
