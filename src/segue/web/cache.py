"""Caches rendered pages: fifty browsers on the same run have it rendered once, not fifty times."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

_MAX_PAGES = 64
_MAX_BYTES = 2 * 1024**2
_MAX_AGE = 3.0
"""Seconds: not everything a page shows is in the store, for example that a process died."""


class PageCache:
    """Rendered pages by address, valid until the store changes, and only for a short time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pages: OrderedDict[str, tuple[int, float, bytes]] = OrderedDict()
        self._rendering: dict[str, threading.Lock] = {}

    def get(self, address: str, version: int, render: Callable[[], bytes]) -> bytes:
        """Return the page of this version of the store; one thread renders it, the others wait."""
        with self._lock:
            busy = self._rendering.setdefault(address, threading.Lock())
        with busy:
            cached = self._find(address, version)
            return cached if cached is not None else self._render(address, version, render)

    def _find(self, address: str, version: int) -> bytes | None:
        with self._lock:
            entry = self._pages.get(address)
        if entry is None or entry[0] != version or time.monotonic() - entry[1] > _MAX_AGE:
            return None
        return entry[2]

    def _render(self, address: str, version: int, render: Callable[[], bytes]) -> bytes:
        try:
            body = render()
        finally:
            with self._lock:
                self._rendering.pop(address, None)
        if len(body) <= _MAX_BYTES:
            with self._lock:
                self._pages[address] = (version, time.monotonic(), body)
                self._pages.move_to_end(address)
                while len(self._pages) > _MAX_PAGES:
                    self._pages.popitem(last=False)
        return body
