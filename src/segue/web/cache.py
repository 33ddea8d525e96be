"""What the threads that render pages share: open stores, and what was rendered or computed before."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

from segue.domain.errors import StoreError
from segue.runtime.app import App

if TYPE_CHECKING:
    from segue.store.store import Store


_MAX_IDLE = 4

T = TypeVar("T")


class VersionedCache(Generic[T]):
    """Values by name, each valid for one version of what it was made from; nobody changes them."""

    def __init__(
        self, most: int, max_age: float = math.inf, is_kept: Callable[[T], bool] | None = None
    ) -> None:
        self._most = most
        self._max_age = max_age
        self._is_kept = is_kept
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[Hashable, float, T]] = OrderedDict()
        self._making: dict[str, threading.Lock] = {}

    def get(self, name: str, version: Hashable, make: Callable[[], T]) -> T:
        """Return the value for this version; one thread makes it, the others wait for it."""
        with self._lock:
            busy = self._making.setdefault(name, threading.Lock())
        with busy:
            with self._lock:
                entry = self._known.get(name)
            if entry and entry[0] == version and time.monotonic() - entry[1] <= self._max_age:
                return entry[2]
            try:
                value = make()
            finally:
                with self._lock:
                    self._making.pop(name, None)
            if self._is_kept is None or self._is_kept(value):
                self._keep(name, version, value)
            return value

    def look(self, name: str) -> tuple[Hashable, T | None]:
        """Return the last value and its version, whether or not it is still valid."""
        with self._lock:
            entry = self._known.get(name)
        return (entry[0], entry[2]) if entry else (None, None)

    def forget(self, name: str) -> None:
        """Make the value again next time."""
        with self._lock:
            self._known.pop(name, None)

    def _keep(self, name: str, version: Hashable, value: T) -> None:
        with self._lock:
            self._known[name] = version, time.monotonic(), value
            self._known.move_to_end(name)
            while len(self._known) > self._most:
                self._known.popitem(last=False)


class StorePool:
    """Lends stores that are open for reading only, so that a slow query blocks nobody else."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._idle: queue.SimpleQueue[Store] = queue.SimpleQueue()

    @contextmanager
    def borrow(self) -> Iterator[Store]:
        """Lend a store while the block runs; one that failed is not lent again."""
        try:
            store = self._idle.get_nowait()
        except queue.Empty:
            store = self._app.store(read_only=True)
        works = True
        try:
            yield store
        except StoreError:
            works = False
            raise
        finally:
            if works and self._idle.qsize() < _MAX_IDLE:
                self._idle.put(store)
            else:
                store.__exit__()

    def close(self) -> None:
        """Close the idle stores."""
        while not self._idle.empty():
            self._idle.get_nowait().__exit__()
