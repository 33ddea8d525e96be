"""Wait for a service that is away: how long, how often it is asked again, and what is said meanwhile."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from segue.domain.errors import AGAIN, ServiceAway, Unavailable
from segue.domain.events import Event, WaitBegan, WaitEnded

T = TypeVar("T")

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0


class Wait:
    """One wait for one service."""

    def __init__(self, service: str, reason: str, patience: float) -> None:
        self._service, self._patience = service, patience
        self._since, self._pause = time.monotonic(), _FIRST_PAUSE
        self.began = WaitBegan(service, reason, time.time() + patience)

    @property
    def ended(self) -> WaitEnded:
        """The event for a service that is back."""
        return WaitEnded(self._service, round(time.monotonic() - self._since, 3))

    def pause(self, reason: str, retry_after: float | None = None) -> float:
        """Return the seconds until the next attempt; raises ServiceAway when patience is over."""
        left = self._since + self._patience - time.monotonic()
        if left <= 0 or (retry_after or 0.0) > left:
            asks = f", and asks to wait {retry_after:.0f} s" if retry_after else ""
            raise ServiceAway(
                f"{self._service[:1].upper()}{self._service[1:]} is away, and was waited for"
                f" {self._patience:g} s: {reason}{asks}.",
                kept="Everything done so far.",
                hint=f"When it is back, {AGAIN}   To wait longer: limits.patience",
            )
        # Jitter keeps those that were refused together from asking together.
        wanted = max(retry_after or 0.0, random.uniform(self._pause / 2, self._pause))  # noqa: S311
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        return min(wanted, left)


async def outlast(
    ask: Callable[[], Awaitable[T]],
    patience: float,
    emit: Callable[[Event], Awaitable[object]] | None = None,
) -> T:
    """Ask until there is an answer: while the service is Unavailable, wait for it; `emit` gets the events."""
    wait: Wait | None = None
    while True:
        try:
            answer = await ask()
        except Unavailable as error:
            # The clock starts with the first failure: how long an answer may take is limited elsewhere.
            new, wait = wait is None, wait or Wait(error.service, error.reason, patience)
            pause = wait.pause(error.reason, error.retry_after)
            if new and emit is not None:
                await emit(wait.began)
            await asyncio.sleep(pause)
        else:
            if wait is not None and emit is not None:
                await emit(wait.ended)
            return answer
