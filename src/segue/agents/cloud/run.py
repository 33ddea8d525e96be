"""Do one job in the cloud: start it, watch it, report its end and the branch it pushed.

If nobody waits for it any more, it is stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from segue.agents.cloud.errors import BAD_ANSWER, BY_US, HANG, TIMEOUT, CloudError, judge_refusal
from segue.agents.cloud.launch import CloudProfile, CloudStarter, StartedSession
from segue.agents.cloud.options import CloudAccess
from segue.agents.cloud.transcript import Transcript
from segue.agents.cloud.vendor import CloudApi, CloudLook, CloudOrder, CloudSession
from segue.agents.cloud.watch import (
    LOOK_SECONDS,
    CloudPace,
    SessionWatch,
    StopNote,
    fail_to_start,
    loop_time,
    shorten,
)
from segue.domain.errors import AGAIN, CredentialsError, SegueError, ServiceAway
from segue.domain.events import AgentStarted, AgentUsage, Event
from segue.domain.job import Job, Mode
from segue.domain.outcome import Failure, FailureKind, Outcome
from segue.system.patience import Wait
from segue.system.process.processes import Processes

_STOP_SECONDS = 10.0
_STOP_TRIES = 3
_USAGE_SECONDS = 15.0
_NO_TEXT = {Mode.PLAN: "plan", Mode.ASK: "answer"}
_TOO_LARGE = Failure(
    FailureKind.OUTPUT_LIMIT, "an event of the cloud agent's stream was too large to be read"
)


class CloudJob(Struct, frozen=True):
    """One job in the cloud."""

    profile: CloudProfile
    api: CloudApi
    slots: asyncio.Semaphore | None
    job: Job
    order: CloudOrder
    options: CloudAccess
    processes: Processes
    deadline: float

    async def events(self) -> AsyncGenerator[Event | Outcome, None]:
        """Yield everything that is seen; the last item is the outcome."""
        began = self.deadline - self.job.limits.wall
        found: list[StartedSession] = []
        doubts: list[CloudError] = []
        used: AgentUsage | None = None
        over = False
        try:
            async for event in self._start(found, doubts):
                yield event
            started = found[0]
            yield self._announce(started)
            watch = await self._watch(started)
            async with aclosing(watch.events()) as seen:
                async for event in seen:
                    yield event
            failure = await self._finish(started.session.id, watch)
            over = True
            outcome, used = await self._conclude(started, watch, failure)
            outcome = replace(outcome, duration=outcome.duration or loop_time() - began)
        except ServiceAway:
            over = True  # the agent may be at work: `resume` finds it again
            raise
        except CloudError as error:
            over = not error.unsure
            if away := self._leave(error, found, doubts):
                over = True
                raise away from None
            refusal = judge_refusal(error, loop_time() >= self.deadline, self.profile.service)
            outcome = fail_to_start(refusal, self.job, loop_time() - began)
            outcome = replace(outcome, facts=self._name(found[0].session) if found else {})
        finally:
            if not over:
                await self._abandon(found[0] if found else None)
        if used is not None:
            yield used
        yield outcome

    def _leave(
        self, error: CloudError, found: list[StartedSession], doubts: list[CloudError]
    ) -> SegueError | None:
        """Return the error for a session that may be at work and cannot be seen now; None if there is none.

        The launch then has no outcome: `resume` finds the session again instead of paying for another one.
        """
        if not (found or doubts or self.job.begun):
            return None
        service = self.profile.service
        page = self.api.page(found[0].session.id) if found else ""
        kept = f"The cloud agent may still be at work; on resume it is found again. {page}".strip()
        if error.denied:
            return CredentialsError(
                judge_refusal(error, late=False, service=service).message,
                kept=kept,
                hint=f"Log in or set its key again (segue doctor checks it), then {AGAIN}",
            )
        lost = error.away or error.limited or error.code == BAD_ANSWER
        if not self.job.begun or not lost:
            return None
        what = f"{service.name[:1].upper()}{service.name[1:]} cannot say what became of the agent"
        return ServiceAway(f"{what}: {error.message}.", kept=kept, hint=f"When it is back, {AGAIN}")

    @property
    def _starter(self) -> CloudStarter:
        return self.profile.starter(self.api, self.order, self.deadline, self.options)

    @property
    def _note(self) -> StopNote:
        return StopNote(lambda: self.processes.scratch(self.job.token))

    async def _start(
        self, found: list[StartedSession], doubts: list[CloudError]
    ) -> AsyncGenerator[Event, None]:
        """Put what was started into `found`; while the service is away, wait for it and try again.

        `doubts` are the answers after which something may have been started.
        """
        waited: Wait | None = None
        patience, starter = self.job.limits.patience, self._starter
        while not found:
            try:
                found.append(await starter.start(self.job.session))
            except CloudError as error:
                may_pass = error.away or error.code == BAD_ANSWER
                if not may_pass or not patience or not starter.may_start_again(error):
                    raise
                doubts += [error] if error.unsure else []
                name, new = self.profile.service.name, waited is None
                waited = waited or Wait(name, error.message, patience)
                pause = waited.pause(error.message)
                if new:
                    yield waited.began
                await asyncio.sleep(pause)
        if waited is not None:
            yield waited.ended

    def _announce(self, started: StartedSession) -> AgentStarted:
        names = self._name(started.session)
        return AgentStarted(
            self.profile.name, names["agent_id"], names.get("run_id"), names["url"], started.adopted
        )

    def _name(self, session: CloudSession) -> dict[str, Any]:
        """Return where a session is found: the vendor's ids, and its page."""
        agent, run = session.split()
        return {
            "agent_id": agent,
            **({"run_id": run} if run else {}),
            "url": self.api.page(session.id) or None,
        }

    async def _watch(self, started: StartedSession) -> SessionWatch:
        """Return the watch over a session; it may have worked for a while already."""
        limits, options, session = self.job.limits, self.options, started.session.id
        deadline = self.deadline
        if started.adopted:
            deadline = shorten(deadline, await self._read_age(session))
        pace = CloudPace(deadline, limits.idle, options.poll_interval, options.retry_pause, limits.patience)
        seen = Transcript(limits.kept_bytes)
        return SessionWatch(self.api, self.profile.service, session, self.order, pace, seen, self.slots)

    async def _read_age(self, session: str) -> float | None:
        try:
            return (await self.api.look(session, self.order, Transcript(0), self.deadline)).age
        except CloudError:
            return None

    async def _finish(self, session: str, watch: SessionWatch) -> Failure | None:
        """Return why the session failed, if it did; one whose time is up is stopped."""
        failure = watch.failure
        if failure is not None and failure not in (TIMEOUT, HANG):
            return failure
        if failure is not None:
            stopped = await self._stop(session, "timeout" if failure is TIMEOUT else "hang")
            await watch.look_again(loop_time() + LOOK_SECONDS)
            if stopped:
                return failure
            if watch.last is None or not watch.last.ended:
                return self._keeps_working(session, failure.kind)
        look = watch.last
        assert look is not None, "a session that was never seen was given up"
        # Did it end because we have stopped it, now or before we were killed?
        word = self._note.read()
        return BY_US[word] if word and look.may_be_ours else look.failure

    def _keeps_working(self, session: str, kind: FailureKind) -> Failure:
        page = self.api.page(session) or f"session {session}"
        what = f"within its time limit, and cannot be stopped from here: {page}"
        return Failure(kind, f"the cloud agent did not finish {what}")

    async def _conclude(
        self, started: StartedSession, watch: SessionWatch, failure: Failure | None
    ) -> tuple[Outcome, AgentUsage | None]:
        """Return the outcome, and what this job has used."""
        look, session, seen = watch.last or CloudLook(""), started.session, watch.seen
        facts: dict[str, Any] = {
            **self._name(session),
            "status": look.word or None,
            "branches": list(look.branches),
            "pull_requests": sorted(set(look.pulls)),
            "adopted": started.adopted,
            **seen.facts(),
        }
        reported = await self._read_usage(session.id, watch)
        text, failure = self._judge_text(look, seen, failure)
        outcome = Outcome(
            text=text,
            failure=failure,
            session=session.id,
            model=self.job.model,
            usage=reported.count() if reported else None,
            duration=look.duration or 0.0,
            branches=look.branches,
            facts=facts,
        )
        return outcome, reported

    def _judge_text(
        self, look: CloudLook, seen: Transcript, failure: Failure | None
    ) -> tuple[str, Failure | None]:
        """Return what the agent has answered; no answer where one is needed is a failure."""
        mode = self.job.mode
        plan = seen.plan if mode is Mode.PLAN else ""
        text = plan or look.text or seen.text
        if failure is None and seen.lost and not (plan if mode is Mode.PLAN else look.text):
            failure = _TOO_LARGE
        if failure is None and mode in _NO_TEXT and not text.strip():
            what = f"the cloud agent ended well but gave no {_NO_TEXT[mode]}"
            failure = Failure(FailureKind.NO_RESULT, what)
        return text, failure

    async def _read_usage(self, session: str, watch: SessionWatch) -> AgentUsage | None:
        if watch.failure not in (None, TIMEOUT, HANG):
            return None
        with suppress(CloudError):
            return await self.api.usage(session, loop_time() + _USAGE_SECONDS)
        return None

    async def _abandon(self, started: StartedSession | None) -> None:
        """Stop the session, if there is one: nobody waits for the job any more."""
        with suppress(CloudError, TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                end = loop_time() + _STOP_SECONDS
                session = started.session if started else await self._starter.find(self.job.session, end)
                if session is not None:
                    await self._stop(session.id, "interrupted")

    async def _stop(self, session: str, why: str) -> bool:
        """Stop the session, if the service lets us; return whether that was accepted."""
        self._note.write(why)
        pause, end = self.options.retry_pause, loop_time() + _STOP_SECONDS
        for left in reversed(range(_STOP_TRIES)):
            try:
                await self.api.stop(session, end)
                return True
            except CloudError as error:
                if not error.unsure:
                    self._note.drop()
                if error.status < 500 or not left or loop_time() + pause > end:
                    return False
            await asyncio.sleep(pause)
        return False
