"""Wait for changes that other processes make to the database, without polling it all the time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from segue.store.database import Database

T = TypeVar("T")

POLL_SECONDS = 1.0
"""How often waiters poll anyway: a dead process announces nothing, and neither do some poolers."""


class Changes:
    """Wakes waiters when the database has changed."""

    def __init__(self, database: Database, is_away: Callable[[], bool] = lambda: False) -> None:
        self._database = database
        self._is_away = is_away
        self._bells: set[asyncio.Event] = set()
        self._stop: Callable[[], None] | None = None

    async def until(self, find: Callable[[], Awaitable[T | None]], seconds: float | None = None) -> T | None:
        """Call `find` now and after each change until it returns something; None when the time is up."""
        found = await find()
        if found is not None:
            return found
        loop = asyncio.get_running_loop()
        deadline = None if seconds is None else loop.time() + seconds
        with self._bell() as bell:
            while (found := await find()) is None:
                pause = POLL_SECONDS if deadline is None else min(POLL_SECONDS, deadline - loop.time())
                if pause <= 0:
                    return None
                await _ring(bell, pause)
        return found

    @contextmanager
    def _bell(self) -> Iterator[asyncio.Event]:
        bell = asyncio.Event()
        self._bells.add(bell)
        try:
            if self._stop is None and not self._is_away():
                self._stop = self._database.watch(asyncio.get_running_loop(), self._ring_all)
            yield bell
        finally:
            self._bells.discard(bell)
            if not self._bells and self._stop is not None:
                self._stop()
                self._stop = None

    def _ring_all(self) -> None:
        for bell in self._bells:
            bell.set()


async def _ring(bell: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await bell.wait()
    bell.clear()
