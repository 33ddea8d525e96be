"""Do one job in the cloud for any vendor: start it, watch it, report its end; stop it if nobody waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from segue.agents.cloud.errors import BY_US, CloudError, CloudService, judge_refusal
from segue.domain.errors import ServiceAway
from segue.domain.events import AgentStarted, AgentUsage, Event
from segue.domain.failure import Failure
from segue.domain.job import Job
from segue.domain.outcome import Outcome
from segue.domain.patience import Wait

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


class CloudWatch(Protocol):
    """Watches what was started."""

    def events(self) -> AsyncGenerator[Event, None]:
        """Yield everything that is seen until the end."""


Started = TypeVar("Started")
Watch = TypeVar("Watch", bound=CloudWatch)


class CloudWork(Protocol[Started, Watch]):
    """The parts of a job in which vendors differ; everything may raise CloudError."""

    async def start(self) -> Started:
        """Start what the job asks for, or find what an earlier attempt has started."""

    def may_start_again(self, error: CloudError) -> bool:
        """Return whether trying again cannot start a second agent."""

    def announce(self, started: Started) -> AgentStarted:
        """Return the event for what was started."""

    async def watch(self, started: Started) -> Watch:
        """Return the watch over what was started."""

    async def finish(self, started: Started, watch: Watch) -> Failure | None:
        """Return why it failed, if it did; what works on without need is stopped."""

    async def conclude(
        self, started: Started, watch: Watch, failure: Failure | None
    ) -> tuple[Outcome, AgentUsage | None]:
        """Return the outcome, and what it has used."""

    async def abandon(self, started: Started | None) -> None:
        """Stop what was started, as far as that is possible at once."""


async def do_work(
    work: CloudWork[Started, Watch], job: Job, service: CloudService, deadline: float
) -> AsyncGenerator[Event | Outcome, None]:
    """Yield everything that is seen; the last item is the outcome."""
    began = deadline - job.limits.wall
    found: list[Started] = []
    used: AgentUsage | None = None
    over = False
    try:
        async for event in _start(work, job, service, found):
            yield event
        started = found[0]
        yield work.announce(started)
        watch = await work.watch(started)
        async with aclosing(watch.events()) as seen:
            async for event in seen:
                yield event
        failure = await work.finish(started, watch)
        over = True
        outcome, used = await work.conclude(started, watch, failure)
        outcome = replace(outcome, duration=outcome.duration or loop_time() - began)
    except ServiceAway:
        over = True  # the agent may be at work: `resume` finds it again
        raise
    except CloudError as error:
        over = not error.unsure
        refusal = judge_refusal(error, loop_time() >= deadline, service)
        outcome = fail_to_start(refusal, job, loop_time() - began)
    finally:
        if not over:
            await work.abandon(found[0] if found else None)
    if used is not None:
        yield used
    yield outcome


async def _start(
    work: CloudWork[Started, Watch], job: Job, service: CloudService, found: list[Started]
) -> AsyncGenerator[Event, None]:
    """Put what was started into `found`; while the service is away, wait for it and try again."""
    waited: Wait | None = None
    while not found:
        try:
            found.append(await work.start())
        except CloudError as error:
            if not error.away or not job.limits.patience or not work.may_start_again(error):
                raise
            new, waited = waited is None, waited or Wait(service.name, error.message, job.limits.patience)
            pause = waited.pause(error.message)
            if new:
                yield waited.began
            await asyncio.sleep(pause)
    if waited is not None:
        yield waited.ended


def shorten(deadline: float, age: float | None) -> float:
    """Return the deadline of work that was adopted; but one look must be possible, however old it is."""
    return max(deadline - (age or 0.0), loop_time() + LOOK_SECONDS)


class StopNote(Struct, frozen=True):
    """Why we have stopped the work, kept until its outcome is stored."""

    folder: Callable[[], Path]

    def write(self, why: str) -> None:
        """Store it before the vendor is asked."""
        (self.folder() / _NOTE).write_text(why, encoding="ascii")

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
