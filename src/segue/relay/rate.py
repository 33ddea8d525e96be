"""How many calls a minute are let through."""

from __future__ import annotations

import time
from collections import deque

_WINDOW = 60.0


class Rate:
    """A sliding window: no sixty seconds hold more calls than allowed."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._calls: deque[float] = deque()

    def wait(self) -> float:
        """Count a call and return 0, or the seconds until one is let through again."""
        now = time.monotonic()
        while self._calls and self._calls[0] <= now - _WINDOW:
            self._calls.popleft()
        if len(self._calls) >= self._limit:
            return self._calls[0] + _WINDOW - now
        self._calls.append(now)
        return 0.0
