"""Watch a session until it ends or its time is up: look at it, and follow its stream if it has one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec import Struct

from segue.agents.cloud.errors import LOST, TIMEOUT, CloudError, CloudService, judge_refusal
from segue.agents.cloud.transcript import Transcript
from segue.agents.cloud.values import CloudLook, CloudSession, CloudVendor
from segue.agents.cloud.work import ApiAbsence, loop_time
from segue.agents.local.values import Json
from segue.domain.events import Event
from segue.domain.failure import Failure

_LOOK_AFTER_POLLS = 4
"""A stream may be silent for this many polls before the session is looked at."""
_BROKEN_STREAMS = 6
"""After this many streams in a row that said nothing, the session is only polled."""


class CloudPace(Struct, frozen=True):
    """When to look, and when to give up."""

    deadline: float
    poll: float
    missing: float
    """How long a session may be missing: one that is new is not shown everywhere at once."""
    patience: float = 0.0
    """How long the API may be away before watching is given up; 0: until the deadline."""


class SessionWatch:
    """Watches one session; in the end `last` is its last state, or `failure` says why it was given up."""

    def __init__(
        self, vendor: CloudVendor, service: CloudService, session: CloudSession, key: str, pace: CloudPace,
        seen: Transcript, slots: asyncio.Semaphore | None,
    ) -> None:  # fmt: skip
        """`slots` are the streams that may be open at once; None: no streams."""
        self._vendor, self._service, self._session, self._key = vendor, service, session, key
        self._pace, self.seen, self._slots = pace, seen, slots
        self._missing_since: float | None = None
        self._absence = ApiAbsence(service, pace.patience, pace.deadline)
        self._broken = 0
        self.last: CloudLook | None = None
        self.failure: Failure | None = None

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield everything that is seen until the end."""
        while True:
            for event in await self._look():
                yield event
            if self._is_over():
                break
            async with aclosing(self._listen()) as heard:
                async for event in heard:
                    yield event
        for event in self.seen.close():
            yield event

    async def look_again(self, deadline: float) -> None:
        """Look once more after the session was stopped, which may have been too late."""
        try:
            self.last = await self._vendor.look(self._session.id, self._key, self.seen, deadline)
        except CloudError:
            return

    async def _listen(self) -> AsyncGenerator[Event, None]:
        """Yield what the stream says until the session's state may be new; without a stream, wait a while."""
        silence = self._pace.poll * _LOOK_AFTER_POLLS
        slots = self._slots if self._broken < _BROKEN_STREAMS else None
        stream = None
        if slots is not None and not slots.locked():
            stream = self._vendor.stream(self._session.id, silence)
        heard = False
        if slots is not None and stream is not None:
            async with slots, aclosing(stream):
                end = min(loop_time() + silence, self._pace.deadline)
                async for said in _until(end, stream):
                    if said is None:
                        # It is open now; what was said before is only in the history.
                        before, events = self.last, await self._look()
                        is_new = self._is_over() or self.last is before  # it could not be read
                    else:
                        heard, is_new = True, self._vendor.read(said, self.seen)
                        events = self.seen.take()
                    for event in events:
                        yield event
                    if is_new:
                        break
            self._broken = 0 if heard else self._broken + 1
        if not heard and not self._is_over():
            await asyncio.sleep(max(0.0, min(self._pace.poll, self._pace.deadline - loop_time())))

    async def _look(self) -> list[Event]:
        """Look at the session; return what is new, also about waiting for the API."""
        try:
            look = await self._vendor.look(self._session.id, self._key, self.seen, self._pace.deadline)
        except CloudError as error:
            if error.away:
                return self._absence.note(error.message)
            self._judge(error)
        else:
            self.last, self._missing_since = look, None
            self.seen.set_status(look.word, look.known)
        return [*self._absence.end(), *self.seen.take()]

    def _judge(self, error: CloudError) -> None:
        if error.gone:
            self._missing_since = self._missing_since or loop_time()
            if loop_time() >= self._missing_since + self._pace.missing:
                self.failure = LOST
        elif error.denied or error.limited:
            self.failure = judge_refusal(error, late=False, service=self._service)

    def _is_over(self) -> bool:
        if self.last is not None and self.last.ended:
            return True
        if self.failure is None and loop_time() >= self._pace.deadline:
            self.failure = TIMEOUT
        return self.failure is not None


async def _until(end: float, stream: AsyncGenerator[Json | None, None]) -> AsyncGenerator[Json | None, None]:
    """Yield what a stream says until it ends, breaks, or the time has come."""
    while True:
        try:
            async with asyncio.timeout_at(end):
                said = await anext(stream)
        except (CloudError, TimeoutError, StopAsyncIteration):
            return
        yield said
