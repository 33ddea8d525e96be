"""A pool of open stores for the threads that render pages, so that a slow query blocks nobody else."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import contextmanager

from segue.domain.errors import StoreError
from segue.ports import Store
from segue.runtime.wiring import App

_MAX_IDLE = 4


class StorePool:
    """Lends stores that are open for reading only."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._idle: queue.SimpleQueue[Store] = queue.SimpleQueue()

    @contextmanager
    def borrow(self) -> Iterator[Store]:
        """Lend a store while the block runs; one that failed is not lent again."""
        store = self._take()
        try:
            yield store
        except StoreError:
            store.__exit__()
            raise
        except BaseException:
            self._give_back(store)
            raise
        else:
            self._give_back(store)

    def close(self) -> None:
        """Close the idle stores."""
        while not self._idle.empty():
            self._idle.get_nowait().__exit__()

    def _take(self) -> Store:
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            return self._app.store(read_only=True)

    def _give_back(self, store: Store) -> None:
        if self._idle.qsize() < _MAX_IDLE:
            self._idle.put(store)
        else:
            store.__exit__()
