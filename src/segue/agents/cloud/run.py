"""Do one job with a session of a vendor that takes no id of ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from segue.agents.cloud.branches import find_branches
from segue.agents.cloud.errors import BY_US, TIMEOUT, CloudError
from segue.agents.cloud.launch import SessionStarter, StartedSession
from segue.agents.cloud.transcript import Transcript
from segue.agents.cloud.values import CloudLook, CloudOrder, CloudProfile, CloudSession, CloudVendor
from segue.agents.cloud.watch import CloudPace, SessionWatch
from segue.agents.cloud.work import LOOK_SECONDS, StopNote, do_work, loop_time, shorten
from segue.agents.local.launch import SessionUsage, count_usage
from segue.domain.events import AgentStarted, AgentUsage, Event
from segue.domain.failure import Failure, FailureKind
from segue.domain.job import Job
from segue.domain.outcome import Outcome, Usage
from segue.system.process.processes import Processes

_STOP_SECONDS = 10.0


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
    deadline: float

    def events(self) -> AsyncGenerator[Event | Outcome, None]:
        """Yield everything that is seen; the last item is the outcome."""
        return do_work(self, self.job, self.profile.service, self.deadline)

    @property
    def _starter(self) -> SessionStarter:
        scratch = self.processes.scratch
        return SessionStarter(
            self.vendor, self.order, lambda: scratch(self.job.token), self.deadline, self.delay
        )

    @property
    def _note(self) -> StopNote:
        return StopNote(lambda: self.processes.scratch(self.job.token))

    async def start(self) -> StartedSession:
        """Launch a session, continue one, or find what an earlier attempt has launched."""
        session = CloudSession.parse(self.job.session) if self.job.session else None
        return await self._starter.start(session)

    def may_start_again(self, error: CloudError) -> bool:  # noqa: ARG002
        """Return True: the first session is looked for before."""
        return True

    def announce(self, started: StartedSession) -> AgentStarted:
        """Return the event for a session."""
        name = started.session.id
        return AgentStarted(self.profile.name, name, None, self.vendor.page(name) or None, started.adopted)

    async def watch(self, started: StartedSession) -> SessionWatch:
        """Return the watch over a session; it may have worked for a while already."""
        seen = Transcript(self.job.limits.kept_bytes, muted=self.job.session is not None)
        deadline = self.deadline
        if started.adopted and self.job.session is None:
            deadline = shorten(deadline, await self._read_age(started.session.id))
        pace = CloudPace(deadline, self.poll, self.delay, self.job.limits.patience)
        service, key = self.profile.service, self.order.key
        return SessionWatch(self.vendor, service, started.session, key, pace, seen, self.slots)

    async def _read_age(self, session: str) -> float | None:
        try:
            look = await self.vendor.look(session, self.order.key, Transcript(0), self.deadline)
        except CloudError:
            return None
        return look.age

    async def finish(self, started: StartedSession, watch: SessionWatch) -> Failure | None:
        """Return why the session failed, if it did; one whose time is up, or that works on, is stopped."""
        session, last, failure = started.session, watch.last, watch.failure
        if failure is TIMEOUT:
            if await self._stop(session.id, "timeout"):
                return TIMEOUT
            await watch.look_again(loop_time() + LOOK_SECONDS)
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
        word = self._note.read()
        return BY_US[word] if word and not self.profile.can.unstoppable else failure

    def _keeps_working(self, session: str) -> Failure:
        page = self.vendor.page(session) or f"session {session}"
        what = (
            f"the cloud agent did not finish within its time limit, and cannot be stopped from here: {page}"
        )
        return Failure(FailureKind.TIMEOUT, what)

    async def conclude(
        self, started: StartedSession, watch: SessionWatch, failure: Failure | None
    ) -> tuple[Outcome, AgentUsage | None]:
        """Return the outcome, with the branch that is on the remote, and what this job has used."""
        look, session, seen = watch.last or CloudLook(""), started.session, watch.seen
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
        used = self._count(session, look.usage)
        outcome = Outcome(
            text=seen.text,
            failure=failure,
            session=str(CloudSession(session.id, branches[0] if branches else session.branch)),
            model=self.job.model,
            usage=used,
            branches=branches,
            facts=facts,
        )
        reported = AgentUsage(used.input_tokens, used.output_tokens, used.cost_usd) if used else None
        return outcome, reported

    def _count(self, session: CloudSession, total: AgentUsage | None) -> Usage | None:
        """Return what this job has used of a session's total."""
        if total is None:
            return None
        job = replace(self.job, session=session.id if self.job.session else None)
        usage = SessionUsage.open(self.processes, self.profile.name, job)
        usage.report(count_usage(total))
        usage.store(session.id)
        return usage.spent()

    async def abandon(self, started: StartedSession | None) -> None:
        """Stop the session, if there is one: nobody waits for the job any more."""
        if self.profile.can.unstoppable:
            return
        with suppress(CloudError, TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                session = started.session if started else await self._starter.find()
                if session is not None:
                    await self._stop(session.id, "interrupted")

    async def _stop(self, session: str, why: str) -> bool:
        """Stop the session, if the vendor lets us; return whether it was accepted."""
        if self.profile.can.unstoppable:
            return False
        self._note.write(why)
        try:
            await self.vendor.stop(session, loop_time() + _STOP_SECONDS)
        except CloudError:
            return False
        return True
