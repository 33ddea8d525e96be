"""Watches one run until it ends or its time is up: by its stream where that is possible, by asking otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from segue.agents.cloud.api import CloudApi, Place, View
from segue.agents.cloud.errors import CloudError, stream_error
from segue.agents.cloud.failures import HANG, LOST, TIMEOUT, refused
from segue.agents.cloud.reading import Reading, parsed
from segue.agents.cloud.sse import Frame, Freshness, Resume
from segue.domain.event import Event
from segue.domain.failure import Failure

LADDER = (1, 2, 4, 8, 16, 30)
"""Pauses before a broken stream is taken up again; after the last one the run is only asked for."""

_NO_STREAM = frozenset({"stream_expired", "invalid_last_event_id", "not_found", "unauthorized", "forbidden"})
"""Codes after which another try at the stream is in vain; asking for the run tells what is the matter."""

_LOOK_AFTER_POLLS = 4
_MISSING = 2


@dataclass(frozen=True, slots=True)
class Pace:
    """When to look, and when to give up."""

    deadline: float
    idle: float
    poll: float
    pause: float
    """The first rung of the ladder, in seconds."""


class Watch:
    """One run under observation. Afterwards `view` holds its end, or `failure` why it was given up."""

    def __init__(
        self, api: CloudApi, place: Place, reading: Reading, pace: Pace, slots: asyncio.Semaphore | None
    ) -> None:
        """`slots` are the streams that may be open at once; None: no streams."""
        self._api = api
        self._place = place
        self._reading = reading
        self._pace = pace
        self._slots = slots if api.streams else None
        self._resume = Resume()
        self._alive_at = self._looked_at = _now()
        self._broken = 0
        self._missing = 0
        self.view: View | None = None
        self.failure: Failure | None = None

    async def events(self) -> AsyncGenerator[Event, None]:
        """Everything that is seen until the end."""
        await self._look()
        while not self._over():
            for event in self._seen():
                yield event
            pause = self._pace.poll
            if self._slots is not None and not self._slots.locked():
                async with self._slots, aclosing(self._streamed()) as streamed:
                    async for event in streamed:
                        yield event
                pause = self._rung()
            else:
                self._alive_at = _now()  # without a stream nobody can say that it is idle
                await self._sleep(pause)
                await self._look()
                continue
            await self._look()
            if not self._over():
                await self._sleep(pause)
        for event in [*self._seen(), *self._reading.close()]:
            yield event

    async def look_again(self, deadline: float) -> None:
        """One more look after a cancellation, which may have come too late or done nothing."""
        try:
            self.view = await self._api.get(self._place, deadline)
        except CloudError:
            return
