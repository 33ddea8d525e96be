"""What was drawn lately: fifty pages that look at the same run have it drawn once, not fifty times."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

_MOST = 64
_LARGEST = 2 * 1024**2
_FRESH = 3.0
"""Seconds: not everything that a page shows is in the store, such as that a process died."""


class Shelf:
    """Keeps drawn pages by address until the store has changed, and not for long."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drawn: OrderedDict[str, tuple[int, float, bytes]] = OrderedDict()
        self._drawing: dict[str, threading.Lock] = {}

    def get(self, address: str, version: int, draw: Callable[[], bytes]) -> bytes:
        """What was drawn at this version of the store, or what is drawn now; one draws, the others wait."""
        with self._lock:
            busy = self._drawing.setdefault(address, threading.Lock())
        with busy:
            known = self._known(address, version)
            return known if known is not None else self._draw(address, version, draw)

    def _known(self, address: str, version: int) -> bytes | None:
        with self._lock:
            kept = self._drawn.get(address)
        if kept is None or kept[0] != version or time.monotonic() - kept[1] > _FRESH:
            return None
        return kept[2]

    def _draw(self, address: str, version: int, draw: Callable[[], bytes]) -> bytes:
        try:
            body = draw()
        finally:
            with self._lock:
                self._drawing.pop(address, None)
        if len(body) <= _LARGEST:
            with self._lock:
                self._drawn[address] = (version, time.monotonic(), body)
                self._drawn.move_to_end(address)
                while len(self._drawn) > _MOST:
                    self._drawn.popitem(last=False)
        return body
