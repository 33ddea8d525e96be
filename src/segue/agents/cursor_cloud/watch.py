"""Start the run that a job asks for, or find the one that exists; then watch it until it ends. Never two."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec import Struct
from msgspec.structs import replace

from segue.agents.cloud.errors import HANG, LOST, TIMEOUT, UNREACHABLE, CloudError
from segue.agents.cloud.sse import Freshness, Resume, SseFrame
from segue.agents.cloud.work import ApiAbsence, loop_time
from segue.agents.cursor_cloud.api import CloudRequest, RunRef, RunSnapshot
from segue.agents.cursor_cloud.client import CloudV1
from segue.agents.cursor_cloud.client_v0 import CloudApi
from segue.agents.cursor_cloud.errors import CURSOR, judge_refusal, read_stream_error
from segue.agents.cursor_cloud.reading import StreamReader, parse_data
from segue.domain.events import Event
from segue.domain.failure import Failure
from segue.domain.repository import same_repository

_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}", re.IGNORECASE)
_SEARCHES = (0.0, 1.0, 3.0)
"""How many pauses to wait before each search for a launch that was not answered."""

_SENDS = 4


class StartedRun(Struct, frozen=True):
    """The run that does the job; `adopted` if an earlier attempt had started it."""

    ref: RunRef
    adopted: bool


class RunStarter(Struct, frozen=True):
    """Starts runs for one request."""

    api: CloudApi
    request: CloudRequest
    deadline: float
    pause: float
    """Seconds between requests about something that should change soon."""
    poll: float
    """Seconds between requests to an agent that is busy."""

    async def start(self, session: str | None) -> StartedRun:
        """Start a new agent, or another run of the session's agent."""
        if session is None:
            return await self._launch(self.request)
        last = RunRef.parse(session)
        if not self.api.owns(last):
            return await self._launch(await self._succeed(last))
        for left in reversed(range(_SENDS)):
            try:
                return await self._follow_up(last)
            except CloudError as error:
                if error.gone:
                    return await self._launch(await self._succeed(last))
                if not error.unsure or not left:
                    raise
            # It may have been sent: the agent's newest run will show.
            await asyncio.sleep(self.pause)
        raise AssertionError("the last attempt returns or raises")

    async def find(self, session: str | None, deadline: float) -> RunRef | None:
        """Return the run that was started by a request whose answer nobody waited for, if any."""
        if session is None or not self.api.owns(last := RunRef.parse(session)):
            return await self.api.find(self.request.token, deadline)
        newest = await self.api.latest(last.agent, deadline)
        return newest if newest.run != last.run else None

    async def _launch(self, request: CloudRequest) -> StartedRun:
        if not self.api.mints_ids and (found := await self.api.find(request.token, self.deadline)):
            return StartedRun(found, adopted=True)
        try:
            return StartedRun(await self.api.launch(request, self.deadline), adopted=False)
        except CloudError as error:
            if not error.unsure:
                raise
            if found := await self._search(request.token):
                return StartedRun(found, adopted=True)
            if error.code == "agent_id_conflict":
                raise CloudError("agent_not_found", "the agent was deleted", status=404) from None
            raise

    async def _search(self, token: str) -> RunRef | None:
        """Return the agent of a launch that was not answered; it may appear a little later."""
        for pause in _SEARCHES:
            await asyncio.sleep(min(pause * self.pause, max(0.0, self.deadline - loop_time())))
            if (found := await self.api.find(token, self.deadline)) is not None:
                return found
        return None

    async def _follow_up(self, last: RunRef) -> StartedRun:
        """Return the run after the session's last one; start it if it does not exist."""
        while True:
            newest = await self.api.latest(last.agent, self.deadline)
            if newest.run != last.run:
                return StartedRun(newest, adopted=True)
            try:
                return StartedRun(
                    await self.api.follow_up(newest, self.request, self.deadline), adopted=False
                )
            except CloudError as error:
                if error.code != "agent_busy" or loop_time() + self.poll > self.deadline:
                    raise
            await asyncio.sleep(self.poll)

    async def _succeed(self, last: RunRef) -> CloudRequest:
        """Return the request for a new agent that continues where one that is archived or gone stopped."""
        branch = await self._find_branch(last) or self.request.base
        on_branch = bool(branch) and not _SHA.fullmatch(branch)
        return replace(self.request, base=branch, on_base=on_branch)

    async def _find_branch(self, last: RunRef) -> str:
        """Return the only branch that the agent has pushed, if that can still be found out."""
        try:
            snapshot = await self.api.get(last, self.deadline)
        except CloudError:
            return ""
        ours = [
            b.name
            for b in snapshot.branches
            if b.name and same_repository(b.repository, self.request.repository)
        ]
        return ours[0] if len(ours) == 1 else ""


LADDER = (1, 2, 4, 8, 16, 30)
"""Pauses before a broken stream is resumed; after the last one the run is only polled."""

_NO_STREAM = frozenset({"stream_expired", "invalid_last_event_id", "not_found", "unauthorized", "forbidden"})
"""Codes after which the stream is not tried again; polling the run shows what is wrong."""

_LOOK_AFTER_POLLS = 4
_MISSING = 2
_DRAIN_SECONDS = 10.0


class Pace(Struct, frozen=True):
    """When to poll, and when to give up."""

    deadline: float
    idle: float
    poll: float
    pause: float
    """The unit of the ladder, in seconds."""
    patience: float = 0.0
    """How long the API may be away before watching is given up; 0: until the deadline."""


class RunWatch:
    """Watches one run; in the end `snapshot` is its last state, or `failure` says why it was given up."""

    def __init__(
        self, api: CloudApi, ref: RunRef, reader: StreamReader, pace: Pace, slots: asyncio.Semaphore | None
    ) -> None:
        """`slots` are the streams that may be open at once; None: no streams."""
        self._api = api
        self._ref = ref
        self.reader = reader
        self._pace = pace
        self._slots = slots if isinstance(api, CloudV1) else None
        self._resume = Resume()
        self._looked_at = loop_time()
        self._heard_at: float | None = None
        """When it last gave a sign of life; None without a stream, because then nobody knows."""
        self._broken = 0
        self._missing = 0
        self._drain_until: float | None = None
        self._absence = ApiAbsence(CURSOR, pace.patience, pace.deadline)
        self.snapshot: RunSnapshot | None = None
        self.failure: Failure | None = None

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield everything that is seen until the end."""
        while True:
            for event in await self._poll():
                yield event
            for event in self.reader.read_status(self.snapshot.word) if self.snapshot else []:
                yield event
            if not self._may_stream():
                self._heard_at = None
            if self._is_over():
                break
            await asyncio.sleep(max(0.0, min(self._pause(), self._limit() - loop_time())))
            if self._slots is not None and self._may_stream():
                async with self._slots, aclosing(self._stream()) as events:
                    async for event in events:
                        yield event
        for event in self.reader.close():
            yield event

    async def poll_again(self, deadline: float) -> None:
        """Poll once more after a cancellation, which may have come too late or had no effect."""
        try:
            self.snapshot = await self._api.get(self._ref, deadline)
        except CloudError:
            return

    async def _poll(self) -> list[Event]:
        """Look at the run; return what there is to say about waiting for the API."""
        self._looked_at = loop_time()
        try:
            self.snapshot = await self._api.get(self._ref, self._pace.deadline)
            self._missing = 0
        except CloudError as error:
            if error.code == UNREACHABLE or error.away:
                return self._absence.note(error.message)
            # Once may be too early for a run that was just created.
            self._missing += error.gone
            if self._missing >= _MISSING:
                self.failure = LOST
            elif error.denied or error.limited:
                self.failure = judge_refusal(error, late=False)
        return self._absence.end()

    def _is_over(self) -> bool:
        if self.snapshot is not None and self.snapshot.status.is_terminal:
            return not self._may_drain()
        if self.failure is None and loop_time() >= self._limit():
            self.failure = TIMEOUT if loop_time() >= self._pace.deadline else HANG
        return self.failure is not None

    def _may_drain(self) -> bool:
        """Return whether a run that has ended may have said something that was not read yet."""
        if self._drain_until is None:
            self._drain_until = loop_time() + _DRAIN_SECONDS
        return self._may_stream() and not self.reader.is_finished and loop_time() < self._drain_until

    def _limit(self) -> float:
        """Return when the run's time is up, or when it has been silent for too long."""
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
        rung = LADDER[self._broken - 1] if self._broken else self._missing
        return rung * self._pace.pause

    async def _stream(self) -> AsyncGenerator[Event, None]:
        """Yield what the stream says until it ends, breaks, or the time is up."""
        silence = self._pace.poll * _LOOK_AFTER_POLLS
        self._broken += 1
        self._heard_at = self._heard_at or loop_time()
        try:
            assert isinstance(self._api, CloudV1), "the other version has no slots"
            async with aclosing(self._api.stream(self._ref, self._resume.last_id, silence)) as frames:
                while (frame := await self._next(frames)) is not None:
                    for event in self._take(frame):
                        yield event
                    if self._drain_until is None and loop_time() >= self._looked_at + silence:
                        for event in await self._poll():
                            yield event
                    if self.reader.is_finished or self._is_over():
                        return
        except CloudError as error:
            if error.code in _NO_STREAM or error.denied or error.gone:
                self._slots = None
        if self._broken > len(LADDER):
            self._slots = None

    async def _next(self, frames: AsyncGenerator[SseFrame, None]) -> SseFrame | None:
        try:
            async with asyncio.timeout_at(self._limit()):
                return await anext(frames, None)
        except TimeoutError:
            return None

    def _take(self, frame: SseFrame) -> list[Event]:
        if frame.event == "error":
            raise read_stream_error(parse_data(frame))
        fresh = self._resume.note(frame)
        if fresh is Freshness.SEEN:
            return []
        events = self.reader.read(frame, fresh)
        if events or frame.id:
            self._heard_at = loop_time()
        if frame.id:
            self._broken = 1
        return events
