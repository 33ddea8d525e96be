"""Do one job through the API: start a run, watch it, report its end; cancel it if nobody waits any more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path

from segue.agents.cursor_cloud.api import LaunchRequest, RunRef, RunUsage, Status
from segue.agents.cursor_cloud.begin import RunStarter, StartedRun
from segue.agents.cursor_cloud.connection import Connection
from segue.agents.cursor_cloud.ending import CloudRunEnd, make_failure_event
from segue.agents.cursor_cloud.errors import CloudError
from segue.agents.cursor_cloud.failures import BY_US, HANG, TIMEOUT, judge_end, judge_refusal
from segue.agents.cursor_cloud.reading import StreamReader
from segue.agents.cursor_cloud.watch import Pace, RunWatch
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
class CloudRun:
    """One job in the cloud."""

    connection: Connection
    job: Job
    request: LaunchRequest
    redactor: Redactor
    poll: float
    pause: float
    scratch: Callable[[], Path]
    """Returns the folder where a note is kept until the outcome is stored."""

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield everything that is seen; the last event has the outcome."""
        began = time.monotonic()
        deadline = _now() + self.job.limits.wall
        starter = RunStarter(self.connection.api, self.request, deadline, self.pause, self.poll)
        reader = StreamReader(self.redactor, self.job.limits.kept_bytes)
        started: StartedRun | None = None
        over = False
        try:
            started = await starter.start(self.job.session)
            yield _start_event(started)
            watch = await self._make_watch(started, reader, deadline)
            async with aclosing(watch.events()) as seen:
                async for event in seen:
                    yield event
            end_of_run = await self._finish(started, watch, time.monotonic() - began)
            over = True
            last = [*end_of_run.usage_event(), end_of_run.last_event(reader, self.redactor)]
        except CloudError as error:
            over = not error.unsure
            failure = judge_refusal(error, late=_now() >= deadline)
            last = [make_failure_event(failure, self.job, time.monotonic() - began, self.redactor)]
        finally:
            if not over:
                await self._abandon(started, starter)
        for event in last:
            yield event

    async def _make_watch(self, started: StartedRun, reader: StreamReader, deadline: float) -> RunWatch:
        limits = self.job.limits
        if started.adopted:
            # It has worked for a while already; but one look must be possible, however old it is.
            deadline = max(deadline - await self._read_age(started.ref, deadline), _now() + _LOOK_SECONDS)
        pace = Pace(deadline, limits.idle, self.poll, self.pause)
        return RunWatch(self.connection.api, started.ref, reader, pace, self.connection.slots)

    async def _read_age(self, ref: RunRef, deadline: float) -> float:
        try:
            return (await self.connection.api.get(ref, deadline)).age or 0.0
        except CloudError:
            return 0.0

    async def _finish(self, started: StartedRun, watch: RunWatch, duration: float) -> CloudRunEnd:
        failure, used = watch.failure, None
        if failure in (TIMEOUT, HANG):
            word = "timeout" if failure is TIMEOUT else "hang"
            accepted = await self._cancel(started.ref, word)
            await watch.poll_again(_now() + _LOOK_SECONDS)
            failure = failure if accepted else self._failure(watch, failure)
        elif failure is None:
            failure = self._failure(watch, None)
        if watch.failure in (None, TIMEOUT, HANG):
            used = await self._read_usage(started.ref)
        return CloudRunEnd(
            self.job,
            self.request.repository,
            started.ref,
            started.adopted,
            watch.snapshot,
            failure,
            used,
            duration,
        )

    def _failure(self, watch: RunWatch, otherwise: Failure | None) -> Failure | None:
        """Return what the run's own end says; `otherwise` if it has not ended."""
        snapshot = watch.snapshot
        if snapshot is None or not snapshot.status.is_terminal:
            return otherwise
        if snapshot.status is Status.SUCCEEDED and self.connection.api.reports_cancelled:
            return None
        word = self._read_note()
        return BY_US[word] if word and snapshot.status is Status.SUCCEEDED else judge_end(snapshot, word)

    async def _read_usage(self, ref: RunRef) -> RunUsage | None:
        """Return what the run has used; counting that may take the API a moment."""
        end = _now() + _USAGE_SECONDS
        used: RunUsage | None = None
        with suppress(CloudError):
            for left in reversed(range(_USAGE_TRIES)):
                used = await self.connection.api.usage(ref, end)
                if used is None or not used.is_empty or not left:
                    break
                await asyncio.sleep(self.pause)
        return used

    async def _abandon(self, started: StartedRun | None, starter: RunStarter) -> None:
        """Cancel what was started, as far as that is possible at once: nobody waits for the job any more."""
        with suppress(CloudError, TimeoutError):
            async with asyncio.timeout(_CANCEL_SECONDS):
                end = _now() + _CANCEL_SECONDS
                ref = started.ref if started else await starter.find(self.job.session, end)
                if ref is not None:
                    await self._cancel(ref, "interrupted")

    async def _cancel(self, ref: RunRef, why: str) -> bool:
        """Cancel the run; return False if the API did not, or if the run had already ended."""
        (self.scratch() / _NOTE).write_text(why, encoding="ascii")
        end = _now() + _CANCEL_SECONDS
        for left in reversed(range(_CANCEL_TRIES)):
            try:
                return await self.connection.api.cancel(ref, end)
            except CloudError as error:
                if error.status < 500 or not left or _now() + self.pause > end:
                    return False
            await asyncio.sleep(self.pause)
        return False

    def _read_note(self) -> str:
        """Return why we have cancelled the run, now or before we were killed; empty if we have not."""
        try:
            word = (self.scratch() / _NOTE).read_text(encoding="ascii")
        except OSError:
            return ""
        return word if word in BY_US else ""


def _start_event(started: StartedRun) -> Event:
    ref = started.ref
    facts = {"agent_id": ref.agent, "run_id": ref.run, "url": ref.url, "adopted": started.adopted}
    return Event(EventType.AGENT_STARTED, {"argv0": "cursor-cloud", **facts})


def _now() -> float:
    return asyncio.get_running_loop().time()
