"""The one thread that writes to a store: what is handed to it is done in the order of handing over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from segue.store.claim import LEASE_MS
from segue.store.database import Database, Disconnected, transact

T = TypeVar("T")

QUICK_PAUSES = (0.1, 0.5)
"""Where writes can be buffered, a broken connection is not waited for much longer than a server's restart."""


class Writer:
    """A connection and its thread."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="segue-store")

    def submit(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Hand work over. Once handed over it is done, whoever stops waiting for it."""
        return asyncio.wrap_future(self._thread.submit(work))

    async def run(self, work: Callable[[], T]) -> T:
        """Hand work over and wait for it; to be cancelled does not undo it."""
        return await asyncio.shield(self.submit(work))

    def close(self) -> None:
        """Wait for the work handed over, then close the connection."""
        self._thread.shutdown()
        self.database.close()


class Outage:
    """Touched on the writer's thread only, but for looks at `is_away`."""

    def __init__(self, database: Database, patience: float) -> None:
        self._database = database
        self._patience = patience
        self._since: float | None = None
        if self.is_borne:
            database.pauses = QUICK_PAUSES

    @property
    def is_borne(self) -> bool:
        """Whether writes are buffered while the database is away."""
        return self._patience > 0

    @property
    def is_away(self) -> bool:
        """Whether the database was out of reach when last heard of."""
        return self._since is not None

    @property
    def is_overdue(self) -> bool:
        """Whether it has been away for longer than is borne."""
        return self._since is not None and time.time() - self._since > self._patience

    @property
    def lease_ms(self) -> int:
        """How long a claim holds: longer than this process goes on without the database.

        The rest is the time that it may take to notice that the database is away.
        """
        return 2 * LEASE_MS + int(self._patience * 1000) if self.is_borne else LEASE_MS

    def attempt(self, work: Callable[[], T | None]) -> T | None:
        """Do what needs an answer of the database; None while it is away."""
        if self.is_away:
            return None
        try:
            return work()
        except Disconnected:
            if not self.is_borne:
                raise
            self._since = time.time()
            return None

    def write(self, work: Callable[[bool], None], keep: Callable[[], None]) -> None:
        """Do the work in a transaction; while the database is away, keep what it would have written."""

        def through() -> bool:
            transact(self._database, work)
            return True

        if not self.attempt(through):
            keep()

    def end(self) -> None:
        """The database is back, and all that was kept is written."""
        self._since = None
