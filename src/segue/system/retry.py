"""Retry while a service is away: the pauses in between, how long in all, and what is reported meanwhile."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from segue.domain.errors import AGAIN, ServiceAway, Unavailable

if TYPE_CHECKING:
    from segue.domain.events import Event, WaitEnded

T = TypeVar("T")

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0


def pauses(first: float = _FIRST_PAUSE, longest: float = _LONGEST_PAUSE) -> Iterator[float]:
    """Yield the seconds before each further attempt, twice as many each time.

    Jitter keeps clients that were refused together from asking together.
    """
    while True:
        yield random.uniform(first / 2, first)  # noqa: S311 - not for secrets
        first = min(2 * first, longest)


class Wait:
    """One wait for one service."""

    def __init__(self, service: str, reason: str, patience: float) -> None:
        from segue.domain.events import WaitBegan  # readers of the store need none of them

        self._service, self._patience = service, patience
        self._since, self._pauses = time.monotonic(), pauses()
        self.began = WaitBegan(service, reason, time.time() + patience)

    @property
    def ended(self) -> WaitEnded:
        """The event for a service that is back."""
        from segue.domain.events import WaitEnded

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
        return min(max(retry_after or 0.0, next(self._pauses)), left)


async def retry(
    ask: Callable[[], Awaitable[T]],
    patience: float,
    emit: Callable[[Event], Awaitable[object]] | None = None,
) -> T:
    """Ask until there is an answer: while the service is Unavailable, wait for it; `emit` gets the events."""
    import asyncio

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
