"""Carries one job through the API: begin, watch, end; and cancel when nobody wants it any more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path

from segue.agents.cursor_cloud.api import Order, Place, Used
from segue.agents.cursor_cloud.begin import Beginning, Begun
from segue.agents.cursor_cloud.connection import Line
from segue.agents.cursor_cloud.ending import Ending, failed_event
from segue.agents.cursor_cloud.errors import CloudError
from segue.agents.cursor_cloud.failures import BY_US, HANG, TIMEOUT, ended, refused
from segue.agents.cursor_cloud.reading import Reading
from segue.agents.cursor_cloud.status import Status
from segue.agents.cursor_cloud.watch import Pace, Watch
from segue.domain.event import Event, EventType
from segue.domain.failure import Failure
from segue.domain.job import Job
from segue.system.redact import Redactor

_CANCEL_SECONDS = 5.0
_CANCEL_TRIES = 3
_USAGE_SECONDS = 15.0
_USAGE_TRIES = 3
_LOOK_SECONDS = 5.0
_NOTE = "cancelled"


@dataclass(frozen=True, slots=True)
class Flight:
    """One job on its way."""

    line: Line
    job: Job
    order: Order
    redactor: Redactor
    poll: float
    pause: float
    scratch: Callable[[], Path]
    """Gives the folder where a word is kept until the outcome is written down."""

    async def events(self) -> AsyncGenerator[Event, None]:
        """Everything that is seen; the last event carries the outcome."""
        began = time.monotonic()
        deadline = _now() + self.job.limits.wall
        beginning = Beginning(self.line.api, self.order, deadline, self.pause, self.poll)
        reading = Reading(self.redactor, self.job.limits.kept_bytes)
        begun: Begun | None = None
        over = False
        try:
            begun = await beginning.begin(self.job.session)
            yield _started(begun)
            watch = await self._watch(begun, reading, deadline)
            async with aclosing(watch.events()) as seen:
                async for event in seen:
                    yield event
            ending = await self._ending(begun, watch, time.monotonic() - began)
            over = True
            last = [*ending.usage_event(), ending.event(reading, self.redactor)]
        except CloudError as error:
            over = not error.unsure
            failure = refused(error, late=_now() >= deadline)
            last = [failed_event(failure, self.job, time.monotonic() - began, self.redactor)]
        finally:
            if not over:
                await self._abandon(begun, beginning)
        for event in last:
            yield event

    async def _watch(self, begun: Begun, reading: Reading, deadline: float) -> Watch:
        limits = self.job.limits
        if begun.adopted:
            # It has been at work for a while; but one look must be possible however old it is.
            deadline = max(deadline - await self._age(begun.place, deadline), _now() + _LOOK_SECONDS)
        pace = Pace(deadline, limits.idle, self.poll, self.pause)
        return Watch(self.line.api, begun.place, reading, pace, self.line.slots)

    async def _age(self, place: Place, deadline: float) -> float:
        try:
            return (await self.line.api.get(place, deadline)).age or 0.0
        except CloudError:
            return 0.0

    async def _ending(self, begun: Begun, watch: Watch, duration: float) -> Ending:
        failure, used = watch.failure, None
        if failure in (TIMEOUT, HANG):
            word = "timeout" if failure is TIMEOUT else "hang"
            accepted = await self._cancel(begun.place, word)
            await watch.look_again(_now() + _LOOK_SECONDS)
            failure = failure if accepted else self._failure(watch, failure)
        elif failure is None:
            failure = self._failure(watch, None)
        if watch.failure in (None, TIMEOUT, HANG):
            used = await self._used(begun.place)
        return Ending(
            self.job, self.order.repository, begun.place, begun.adopted, watch.view, failure, used, duration
        )

    def _failure(self, watch: Watch, otherwise: Failure | None) -> Failure | None:
        """What the run's own end says; `otherwise` when it has none."""
        view = watch.view
        if view is None or not view.status.terminal:
            return otherwise
        if view.status is Status.SUCCEEDED and self.line.api.tells_cancelled:
            return None
        word = self._cancelled()
        return BY_US[word] if word and view.status is Status.SUCCEEDED else ended(view, word)

    async def _used(self, place: Place) -> Used | None:
        """What the run has used; it may take a moment until that is counted."""
        end = _now() + _USAGE_SECONDS
        used: Used | None = None
        with suppress(CloudError):
            for left in reversed(range(_USAGE_TRIES)):
                used = await self.line.api.usage(place, end)
                if used is None or not used.nothing or not left:
                    break
                await asyncio.sleep(self.pause)
        return used

    async def _abandon(self, begun: Begun | None, beginning: Beginning) -> None:
        """Nobody waits for the job any more: end what was begun, as far as that is possible at once."""
        with suppress(CloudError, TimeoutError):
            async with asyncio.timeout(_CANCEL_SECONDS):
                end = _now() + _CANCEL_SECONDS
                place = begun.place if begun else await beginning.look(self.job.session, end)
                if place is not None:
                    await self._cancel(place, "interrupted")

    async def _cancel(self, place: Place, why: str) -> bool:
        """Cancel the run, as well as the API lets us; False when it did not, or when the run had ended."""
        (self.scratch() / _NOTE).write_text(why, encoding="ascii")
        end = _now() + _CANCEL_SECONDS
        for left in reversed(range(_CANCEL_TRIES)):
            try:
                return await self.line.api.cancel(place, end)
            except CloudError as error:
                if error.status < 500 or not left or _now() + self.pause > end:
                    return False
            await asyncio.sleep(self.pause)
        return False

    def _cancelled(self) -> str:
        """Why we have cancelled the run, now or before we were killed; empty when we have not."""
        try:
            word = (self.scratch() / _NOTE).read_text(encoding="ascii")
        except OSError:
            return ""
        return word if word in BY_US else ""


def _started(begun: Begun) -> Event:
    place = begun.place
    facts = {"agent_id": place.agent, "run_id": place.run, "url": place.url, "adopted": begun.adopted}
    return Event(EventType.AGENT_STARTED, {"argv0": "cursor-cloud", **facts})


def _now() -> float:
    return asyncio.get_running_loop().time()
