"""Do one job in the cloud: start a session, watch it, report its end; stop it if nobody waits any more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from segue.agents.cloud.branches import find_branches
from segue.agents.cloud.errors import BY_US, TIMEOUT, CloudError, judge_refusal
from segue.agents.cloud.launch import SessionStarter, StartedSession
from segue.agents.cloud.transcript import Transcript
from segue.agents.cloud.values import CloudLook, CloudOrder, CloudProfile, CloudSession, CloudVendor
from segue.agents.cloud.watch import CloudPace, SessionWatch, loop_time
from segue.agents.local.launch import SessionUsage, count_usage
from segue.domain.errors import ServiceAway
from segue.domain.events import AgentStarted, AgentUsage, Event
from segue.domain.failure import Failure, FailureKind
from segue.domain.job import Job
from segue.domain.outcome import Outcome, Usage
from segue.domain.patience import Wait
from segue.system.process.processes import Processes

_STOP_SECONDS = 10.0
_LOOK_SECONDS = 5.0
_NOTE = "stopped"


def fail_to_start(failure: Failure, job: Job, duration: float = 0.0) -> Outcome:
    """Return the outcome of a job that has no session."""
    return Outcome(failure=failure, session=job.session, duration=duration, facts={"adopted": False})


class CloudJob(Struct, frozen=True):
    """One job in the cloud."""

    profile: CloudProfile
    vendor: CloudVendor
    slots: asyncio.Semaphore | None
    job: Job
    order: CloudOrder
    poll: float
    delay: float
    processes: Processes

    async def events(self) -> AsyncGenerator[Event | Outcome, None]:
        """Yield everything that is seen; the last item is the outcome."""
        began = time.monotonic()
        deadline = loop_time() + self.job.limits.wall
        starter = SessionStarter(
            self.vendor, self.order, lambda: self.processes.scratch(self.job.token), deadline, self.delay
        )
        started: StartedSession | None = None
        over = False
        try:
            async for item in self._start(starter):
                if isinstance(item, StartedSession):
                    started = item
                else:
                    yield item
            assert started is not None
            name = started.session.id
            page = self.vendor.page(name) or None
            yield AgentStarted(self.profile.name, name, None, page, started.adopted)
            seen = Transcript(self.job.limits.kept_bytes, muted=self.job.session is not None)
            watch = await self._make_watch(started, seen, deadline)
            async with aclosing(watch.events()) as events:
                async for event in events:
                    yield event
            failure = await self._finish(started.session, watch)
            over = True
            outcome = await self._outcome(started, watch.last, seen, failure)
            outcome = replace(outcome, duration=time.monotonic() - began)
        except ServiceAway:
            over = True  # the session may be at work: `resume` finds it again by its key
            raise
        except CloudError as error:
            over = not error.unsure
            late = loop_time() >= deadline
            refusal = judge_refusal(error, late, self.profile.service)
            outcome = fail_to_start(refusal, self.job, time.monotonic() - began)
        finally:
            if not over:
                await self._abandon(started, starter)
        if outcome.usage is not None:
            used = outcome.usage
            yield AgentUsage(used.input_tokens, used.output_tokens, used.cost_usd)
        yield outcome

    async def _start(self, starter: SessionStarter) -> AsyncGenerator[Event | StartedSession, None]:
        """Yield the session at last; while the service is away, wait for it and try again.

        Trying again never starts a second session: the first one is looked for before.
        """
        wait: Wait | None = None
        session = CloudSession.parse(self.job.session) if self.job.session else None
        while True:
            try:
                started = await starter.start(session)
            except CloudError as error:
                if not error.away or not self.job.limits.patience:
                    raise
                service, patience = self.profile.service.name, self.job.limits.patience
                new, wait = wait is None, wait or Wait(service, error.message, patience)
                pause = wait.pause(error.message)
                if new:
                    yield wait.began
                await asyncio.sleep(pause)
            else:
                if wait is not None:
                    yield wait.ended
                yield started
                return

    async def _make_watch(self, started: StartedSession, seen: Transcript, deadline: float) -> SessionWatch:
        if started.adopted and self.job.session is None:
            # It has worked for a while already; but one look must be possible, however old it is.
            age = await self._read_age(started.session.id, deadline)
            deadline = max(deadline - age, loop_time() + _LOOK_SECONDS)
        pace = CloudPace(deadline, self.poll, self.delay, self.job.limits.patience)
        service, key = self.profile.service, self.order.key
        return SessionWatch(self.vendor, service, started.session, key, pace, seen, self.slots)

    async def _read_age(self, session: str, deadline: float) -> float:
        try:
            look = await self.vendor.look(session, self.order.key, Transcript(0), deadline)
        except CloudError:
            return 0.0
        return look.age or 0.0

    async def _finish(self, session: CloudSession, watch: SessionWatch) -> Failure | None:
        """Return why the session failed, if it did; one whose time is up, or that works on, is stopped."""
        last, failure = watch.last, watch.failure
        if failure is TIMEOUT:
            if await self._stop(session.id, "timeout"):
                return TIMEOUT
            await watch.look_again(loop_time() + _LOOK_SECONDS)
            ended = watch.last is not None and watch.last.ended
            return watch.last.failure if watch.last and ended else self._keeps_working(session.id)
        if failure is not None:
            return failure
        assert last is not None, "a session that was never seen was given up"
        if last.works_on:
            await self._stop(session.id, "interrupted")
            return last.failure
        return self._explain(last.failure)

    def _explain(self, failure: Failure | None) -> Failure | None:
        """Return why the session ended: because we have stopped it, now or before we were killed?"""
        word = self._read_note()
        return BY_US[word] if word and not self.profile.can.unstoppable else failure

    def _keeps_working(self, session: str) -> Failure:
        page = self.vendor.page(session) or f"session {session}"
        what = (
            f"the cloud agent did not finish within its time limit, and cannot be stopped from here: {page}"
        )
        return Failure(FailureKind.TIMEOUT, what)

    async def _outcome(
        self, started: StartedSession, last: CloudLook | None, seen: Transcript, failure: Failure | None
    ) -> Outcome:
        look, session = last or CloudLook(""), started.session
        asked = session.branch if self.profile.pushes else ""
        repository = self.order.repository
        branches, verified = await find_branches(self.job.workspace, repository, asked, look)
        facts: dict[str, Any] = {
            "agent_id": session.id,
            "url": self.vendor.page(session.id) or None,
            "status": look.word or None,
            "branches": list(branches),
            "verified": verified,
            "pull_requests": sorted(set(look.pulls)),
            "adopted": started.adopted,
            **look.facts,
            **seen.facts(),
        }
        return Outcome(
            text=seen.text,
            failure=failure,
            session=str(CloudSession(session.id, branches[0] if branches else session.branch)),
            model=self.job.model,
            usage=self._count(session, look.usage),
            branches=branches,
            facts=facts,
        )

    def _count(self, session: CloudSession, total: AgentUsage | None) -> Usage | None:
        """Return what this job has used of a session's total."""
        if total is None:
            return None
        job = replace(self.job, session=session.id if self.job.session else None)
        usage = SessionUsage.open(self.processes, self.profile.name, job)
        usage.report(count_usage(total))
        usage.store(session.id)
        return usage.spent()

    async def _abandon(self, started: StartedSession | None, starter: SessionStarter) -> None:
        """Stop what was started, as far as that is possible at once: nobody waits for the job any more."""
        if self.profile.can.unstoppable:
            return
        with suppress(CloudError, TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                session = started.session if started else await starter.find()
                if session is not None:
                    await self._stop(session.id, "interrupted")

    async def _stop(self, session: str, why: str) -> bool:
        """Stop the session, if the vendor lets us; return whether it was accepted."""
        if self.profile.can.unstoppable:
            return False
        (self.processes.scratch(self.job.token) / _NOTE).write_text(why, encoding="ascii")
        try:
            await self.vendor.stop(session, loop_time() + _STOP_SECONDS)
        except CloudError:
            return False
        return True

    def _read_note(self) -> str:
        try:
            word = (self.processes.scratch(self.job.token) / _NOTE).read_text(encoding="ascii")
        except OSError:
            return ""
        return word if word in BY_US else ""
