"""Watch a session until it ends or its time is up: look at it, and follow its stream if it has one.

Why we stopped it is noted until its outcome is stored; while the API is away, it is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from msgspec import Struct

from segue.agents.cloud.errors import (
    BY_US,
    DELETED,
    HANG,
    TIMEOUT,
    UNREACHABLE,
    CloudError,
    CloudService,
)
from segue.agents.cloud.transcript import Transcript
from segue.agents.cloud.vendor import CloudApi, CloudLook, CloudOrder, CloudSign
from segue.domain.events import Event
from segue.domain.job import Job
from segue.domain.outcome import Failure, Outcome
from segue.system.patience import Wait

LOOK_SECONDS = 5.0
"""Seconds for one look at work whose time is up."""
_NOTE = "stopped"


def loop_time() -> float:
    """Return the time of the event loop, in which deadlines are given."""
    return asyncio.get_running_loop().time()


def fail_to_start(failure: Failure, job: Job, duration: float = 0.0) -> Outcome:
    """Return the outcome of a job for which nothing was started."""
    return Outcome(
        failure=failure, session=job.session, model=job.model, duration=duration, facts={"adopted": False}
    )


def shorten(deadline: float, age: float | None) -> float:
    """Return the deadline of work that was adopted; but one look must be possible, however old it is."""
    return max(deadline - (age or 0.0), loop_time() + LOOK_SECONDS)


class StopNote(Struct, frozen=True):
    """Why we have stopped the work, kept until its outcome is stored."""

    folder: Callable[[], Path]

    def write(self, why: str) -> None:
        """Store it before the vendor is asked."""
        (self.folder() / _NOTE).write_text(why, encoding="ascii")

    def drop(self) -> None:
        """Forget it: the vendor has refused, so whatever ended the work, it was not us."""
        (self.folder() / _NOTE).unlink(missing_ok=True)

    def read(self) -> str:
        """Return why we have stopped it, now or before we were killed; empty if we have not."""
        try:
            word = (self.folder() / _NOTE).read_text(encoding="ascii")
        except OSError:
            return ""
        return word if word in BY_US else ""


class ApiAbsence:
    """An API that does not answer while work is watched."""

    def __init__(self, service: CloudService, patience: float, deadline: float) -> None:
        """`patience`: how long it may be away before watching is given up; 0: until the deadline."""
        self._service, self._patience, self._deadline = service, patience, deadline
        self._wait: Wait | None = None

    def note(self, reason: str) -> list[Event]:
        """Note that the API is away; raises ServiceAway when it has been so for too long."""
        if not self._patience or loop_time() >= self._deadline:
            return []
        if self._wait is None:
            self._wait = Wait(self._service.name, reason, self._patience)
            return [self._wait.began]
        self._wait.pause(reason)
        return []

    def end(self) -> list[Event]:
        """Note that it has answered."""
        back, self._wait = self._wait, None
        return [back.ended] if back else []


LADDER = (1, 2, 4, 8, 16, 30)
"""Pauses before a broken stream is opened again; after the last one the session is only polled."""

_NO_STREAM = frozenset({"stream_expired", "invalid_last_event_id", "not_found", "unauthorized", "forbidden"})
"""Codes after which the stream is not tried again; looking at the session shows what is wrong."""

_LOOK_AFTER_POLLS = 4
"""A stream may be silent for this many polls before the session is looked at."""
_LOOKS_IN_VAIN = 4
"""How often the vendor must say so before a session counts as gone, or the key as refused."""
_DRAIN_SECONDS = 10.0


class CloudPace(Struct, frozen=True):
    """When to look, and when to give up."""

    deadline: float
    idle: float
    """How long a stream may be without work before that is a hang."""
    poll: float
    pause: float
    """The unit of the ladder, in seconds."""
    patience: float = 0.0
    """How long the API may be away before watching is given up; 0: until the deadline."""


class SessionWatch:
    """Watches one session; in the end `last` is its last state, or `failure` says why it was given up."""

    def __init__(
        self, api: CloudApi, service: CloudService, session: str, order: CloudOrder, pace: CloudPace,
        seen: Transcript, slots: asyncio.Semaphore | None,
    ) -> None:  # fmt: skip
        """`slots` are the streams that may be open at once; None: no streams."""
        self._api, self._service, self._session, self._order = api, service, session, order
        self._pace, self.seen, self._slots = pace, seen, slots
        self._looked_at = loop_time()
        self._heard_at: float | None = None
        """When it last gave a sign of life; None without a stream, because then nobody knows."""
        self._broken = 0
        self._missing_since: float | None = None
        self._vain = 0
        """How many looks in a row were told that there is no such session, or that it is not ours to see."""
        self._hold_until = 0.0
        self._drain_until: float | None = None
        self._absence = ApiAbsence(service, pace.patience, pace.deadline)
        self.last: CloudLook | None = None
        self.failure: Failure | None = None

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield everything that is seen until the end."""
        while True:
            for event in await self._look():
                yield event
            if not self._may_stream():
                self._heard_at = None
            if self._is_over():
                break
            pause = max(self._pause(), self._hold_until - loop_time())
            await asyncio.sleep(max(0.0, min(pause, self._limit() - loop_time())))
            if self._slots is not None and self._may_stream():
                async with self._slots, aclosing(self._listen()) as heard:
                    async for event in heard:
                        yield event
        for event in self._api.close(self.seen):
            yield event

    async def look_again(self, deadline: float) -> None:
        """Look once more after the session was stopped, which may have been too late or had no effect."""
        try:
            self.last = await self._api.look(self._session, self._order, self.seen, deadline)
        except CloudError:
            return

    async def _look(self) -> list[Event]:
        """Look at the session; return what is new, also about waiting for the API."""
        self._looked_at = loop_time()
        try:
            look = await self._api.look(self._session, self._order, self.seen, self._pace.deadline)
        except CloudError as error:
            if error.away or error.code == UNREACHABLE or error.limited:
                self._hold_until = loop_time() + (error.retry_after or 0.0)
                return self._absence.note(error.message)
            self._judge(error)
        else:
            self.last, self._missing_since, self._vain = look, None, 0
            self.seen.set_status(look.word, look.known)
        return [*self._absence.end(), *self.seen.take()]

    def _judge(self, error: CloudError) -> None:
        """Give the session up if it is certainly gone; raise the error if we are certainly locked out.

        A single answer proves neither: the session is paid for, and may be seen again.
        """
        self._vain += error.gone or error.denied
        if error.gone:
            self._missing_since = self._missing_since or loop_time()
            if self._vain >= _LOOKS_IN_VAIN and loop_time() >= self._missing_since + self._pace.pause:
                self.failure = DELETED
        elif error.denied and self._vain >= _LOOKS_IN_VAIN:
            raise error

    def _is_over(self) -> bool:
        if self.last is not None and self.last.ended:
            return not self._may_drain()
        if self.failure is None and loop_time() >= self._limit():
            self.failure = TIMEOUT if loop_time() >= self._pace.deadline else HANG
        return self.failure is not None

    def _may_drain(self) -> bool:
        """Return whether a session that has ended may have said something that was not read yet."""
        if self._drain_until is None:
            self._drain_until = loop_time() + _DRAIN_SECONDS
        return self._may_stream() and self._api.may_say_more() and loop_time() < self._drain_until

    def _limit(self) -> float:
        """Return when the session's time is up, or when it has been silent for too long."""
        if self._drain_until is not None:
            return self._drain_until
        silent = float("inf") if self._heard_at is None else self._heard_at + self._pace.idle
        return min(self._pace.deadline, silent)

    def _may_stream(self) -> bool:
        return self._slots is not None and not self._slots.locked()

    def _pause(self) -> float:
        """Return the seconds until the next attempt: none before the first stream, then up the ladder."""
        if not self._may_stream():
            return self._pace.poll
        rung = LADDER[self._broken - 1] if self._broken else int(self._vain > 0)
        return rung * self._pace.pause

    async def _listen(self) -> AsyncGenerator[Event, None]:
        """Yield what the stream says until it ends, breaks, the state may be new, or the time is up."""
        silence = self._pace.poll * _LOOK_AFTER_POLLS
        self._broken += 1
        self._heard_at = self._heard_at or loop_time()
        try:
            async with aclosing(self._api.stream(self._session, silence)) as stream:
                async for said in self._until(silence, stream):
                    before, heard = self.last, self._read(said)
                    events = self.seen.take()
                    is_due = self._drain_until is None and loop_time() >= self._looked_at + silence
                    if said is None or is_due:
                        events += await self._look()
                    for event in events:
                        yield event
                    missed = said is None and self.last is before  # the history could not be read
                    if missed or heard is CloudSign.STATE or self._is_over():
                        return
        except CloudError as error:
            if error.code in _NO_STREAM or error.denied or error.gone:
                self._slots = None
        if self._broken > len(LADDER):
            self._slots = None

    async def _until(self, silence: float, stream: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
        """Yield what a stream says until it ends, is silent, or the time has come."""
        while True:
            try:
                async with asyncio.timeout_at(min(self._limit(), loop_time() + silence)):
                    said = await anext(stream)
            except (TimeoutError, StopAsyncIteration):
                return
            yield said

    def _read(self, said: Any) -> CloudSign:
        """Read an event; None is no event, but says that the stream is open."""
        heard = CloudSign.NOTHING if said is None else self._api.read(said, self.seen)
        if heard is not CloudSign.NOTHING:
            self._heard_at, self._broken = loop_time(), 1
        return heard
