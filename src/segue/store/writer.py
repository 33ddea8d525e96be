"""The one thread that writes to a store, in order, and what it does while the database is away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from segue.domain.errors import StoreDenied, StoreError
from segue.domain.events import WaitBegan, WaitEnded
from segue.store.claim import LEASE_MS
from segue.store.database import Database, Disconnected, transact

T = TypeVar("T")

SERVICE = "the database"
_QUICK = 0.005
"""Seconds of a write during which everything else may wait."""
QUICK_PAUSES = (0.1, 0.5)
"""Where writes can be buffered, reconnecting is given up after about the time of a server's restart."""


class Writer:
    """A connection and the thread that uses it."""

    def __init__(self, database: Database, kept: bool = False) -> None:
        """`kept`: the connection is left open at the end."""
        self.database = database
        self._kept = kept
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="segue-store")
        self._queued = 0
        self._took = 0.0
        """Seconds of the last write."""

    def submit(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Queue work. Once queued it is done, even if the caller stops waiting."""
        future = asyncio.wrap_future(self._thread.submit(self._measure, work))
        self._queued += 1
        future.add_done_callback(self._leave_queue)
        return future

    def write(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Write in one transaction: here, if the database is quick and idle, because a thread costs more."""
        if self._queued or self._took > _QUICK or not self.database.begin_at_once():
            return self.submit(work)
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            done.set_result(self._measure(work))
        except BaseException as error:
            self.database.roll_back()
            done.set_exception(error)
        return done

    async def run(self, work: Callable[[], T]) -> T:
        """Queue work and wait for it; cancelling does not undo it."""
        return await asyncio.shield(self.submit(work))

    def _measure(self, work: Callable[[], T]) -> T:
        began = time.monotonic()
        try:
            return work()
        finally:
            self._took = time.monotonic() - began

    def _leave_queue(self, _done: asyncio.Future[T]) -> None:
        self._queued -= 1

    def close(self) -> None:
        """Finish the queued work, then close the connection."""
        self._thread.shutdown()
        if not self._kept:
            self.database.close()


class Outage:
    """Tracks whether the database is away. Used on the writer's thread only, except for `is_away`."""

    def __init__(self, database: Database, patience: float) -> None:
        self._database = database
        self._patience = patience
        self._since: float | None = None
        self.failure: StoreError | None = None
        """Why the database cannot be reached."""
        if self.is_buffering:
            database.pauses = QUICK_PAUSES

    @property
    def is_buffering(self) -> bool:
        """True if writes are buffered while the database is away."""
        return self._patience > 0

    @property
    def is_away(self) -> bool:
        """True if the last attempt to reach the database failed."""
        return self._since is not None

    @property
    def is_overdue(self) -> bool:
        """True if the database has been away for longer than allowed."""
        if self._since is None:
            return False
        denied = isinstance(self.failure, StoreDenied)  # waiting does not change that
        return denied or time.monotonic() - self._since > self._patience

    @property
    def lease_ms(self) -> int:
        """How long a claim lasts: longer than this process continues without the database.

        The rest is the time that it takes to notice that the database is away.
        """
        return 2 * LEASE_MS + int(self._patience * 1000) if self.is_buffering else LEASE_MS

    def attempt(self, work: Callable[[], T | None]) -> T | None:
        """Do work that needs an answer from the database; None while it is away."""
        if self.is_away:
            return None
        try:
            return work()
        except (Disconnected, StoreDenied) as error:
            if not self.is_buffering:
                raise
            self._since, self.failure = time.monotonic(), error
            return None

    @property
    def wait(self) -> WaitBegan | None:
        """What people see while the database is away."""
        if self._since is None or self.failure is None:
            return None
        left = self._since + self._patience - time.monotonic()
        return WaitBegan(SERVICE, self.failure.message, time.time() + left)

    @property
    def waited(self) -> WaitEnded:
        """What people see when it is back."""
        passed = time.monotonic() - self._since if self._since is not None else 0.0
        return WaitEnded(SERVICE, round(passed, 3))

    def write(self, work: Callable[[bool], None], keep: Callable[[], None]) -> None:
        """Do the work in a transaction; while the database is away, keep what it would have written."""

        def commit() -> bool:
            transact(self._database, work)
            return True

        if not self.attempt(commit):
            keep()

    def end(self) -> None:
        """Record that the database is back and all buffers are replayed."""
        self._since = self.failure = None
