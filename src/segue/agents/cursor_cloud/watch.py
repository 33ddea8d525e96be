"""Watches one run until it ends or its time is up: by its stream where there is one, by asking otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from segue.agents.cursor_cloud.api import CloudApi, Place, View
from segue.agents.cursor_cloud.errors import CloudError, stream_error
from segue.agents.cursor_cloud.failures import HANG, LOST, TIMEOUT, refused
from segue.agents.cursor_cloud.reading import Reading, parsed
from segue.agents.cursor_cloud.sse import Frame, Freshness, Resume
from segue.domain.event import Event
from segue.domain.failure import Failure

LADDER = (1, 2, 4, 8, 16, 30)
"""Pauses before a broken stream is taken up again; after the last one the run is only asked for."""

_NO_STREAM = frozenset({"stream_expired", "invalid_last_event_id", "not_found", "unauthorized", "forbidden"})
"""Codes after which another try at the stream is in vain; asking for the run tells what is the matter."""

_LOOK_AFTER_POLLS = 4
_MISSING = 2
_DRAIN_SECONDS = 10.0


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
        self._looked_at = _now()
        self._heard_at: float | None = None
        """When it last gave a sign of life; None while nobody listens, so that nobody can say it is idle."""
        self._broken = 0
        self._missing = 0
        self._drain_until: float | None = None
        self.view: View | None = None
        self.failure: Failure | None = None

    async def events(self) -> AsyncGenerator[Event, None]:
        """Everything that is seen until the end."""
        while True:
            await self._look()
            for event in self._reading.status(self.view.word) if self.view else []:
                yield event
            if not self._may_stream():
                self._heard_at = None
            if self._over():
                break
            await asyncio.sleep(max(0.0, min(self._pause(), self._limit() - _now())))
            if self._slots is not None and self._may_stream():
                async with self._slots, aclosing(self._streamed()) as streamed:
                    async for event in streamed:
                        yield event
        for event in self._reading.close():
            yield event

    async def look_again(self, deadline: float) -> None:
        """One more look after a cancellation, which may have come too late or done nothing."""
        try:
            self.view = await self._api.get(self._place, deadline)
        except CloudError:
            return

    async def _look(self) -> None:
        self._looked_at = _now()
        try:
            self.view = await self._api.get(self._place, self._pace.deadline)
            self._missing = 0
        except CloudError as error:
            # Once may be too early for a run that was just made.
            self._missing += error.gone
            if self._missing >= _MISSING:
                self.failure = LOST
            elif error.denied or error.limited:
                self.failure = refused(error, late=False)

    def _over(self) -> bool:
        if self.view is not None and self.view.status.terminal:
            return not self._may_drain()
        if self.failure is None and _now() >= self._limit():
            self.failure = TIMEOUT if _now() >= self._pace.deadline else HANG
        return self.failure is not None

    def _may_drain(self) -> bool:
        """Whether a run that has ended may have said something that was not heard yet."""
        if self._drain_until is None:
            self._drain_until = _now() + _DRAIN_SECONDS
        return self._may_stream() and not self._reading.finished and _now() < self._drain_until

    def _limit(self) -> float:
        """When the run has had its time, or has been silent for too long."""
        if self._drain_until is not None:
            return self._drain_until
        silent = float("inf") if self._heard_at is None else self._heard_at + self._pace.idle
        return min(self._pace.deadline, silent)

    def _may_stream(self) -> bool:
        return self._slots is not None and not self._slots.locked()

    def _pause(self) -> float:
        """Seconds until the next try: none before the first stream, then up the ladder."""
        if not self._may_stream():
            return self._pace.poll
        rung = LADDER[self._broken - 1] if self._broken else self._missing
        return rung * self._pace.pause

    async def _streamed(self) -> AsyncGenerator[Event, None]:
        """What the stream says, until it ends, breaks, or there is no more time."""
        silence = self._pace.poll * _LOOK_AFTER_POLLS
        self._broken += 1
        self._heard_at = self._heard_at or _now()
        try:
            async with aclosing(self._api.stream(self._place, self._resume.last_id, silence)) as frames:
                while (frame := await self._next(frames)) is not None:
                    for event in self._taken(frame):
                        yield event
                    if self._drain_until is None and _now() >= self._looked_at + silence:
                        await self._look()
                    if self._reading.finished or self._over():
                        return
        except CloudError as error:
            if error.code in _NO_STREAM or error.denied or error.gone:
                self._slots = None
        if self._broken > len(LADDER):
            self._slots = None

    async def _next(self, frames: AsyncGenerator[Frame, None]) -> Frame | None:
        try:
            async with asyncio.timeout_at(self._limit()):
                return await anext(frames, None)
        except TimeoutError:
            return None

    def _taken(self, frame: Frame) -> list[Event]:
        if frame.event == "error":
            raise stream_error(parsed(frame))
        fresh = self._resume.note(frame)
        if fresh is Freshness.SEEN:
            return []
        events = self._reading.read(frame, fresh)
        if events or frame.id:
            self._heard_at = _now()
        if frame.id:
            self._broken = 1
        return events


def _now() -> float:
    return asyncio.get_running_loop().time()
