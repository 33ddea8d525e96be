"""The one thread that writes to a store: what is handed to it is done in the order of handing over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from segue.store.database import Database

T = TypeVar("T")


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
