"""Do one job in the cloud: start it or find it again, look at it until it ends, report what it pushed.

If nobody waits for it any more, it is stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from segue.agents.cursor_cloud.api import CloudOrder, Look, RunRef, Status
from segue.agents.cursor_cloud.errors import (
    BAD_ANSWER,
    DELETED,
    INTERRUPTED,
    TIMEOUT,
    UNREACHABLE,
    CloudError,
    judge_refusal,
)
from segue.agents.cursor_cloud.v0 import CloudV0
from segue.agents.cursor_cloud.v1 import CloudV1
from segue.agents.local.output import split
from segue.agents.local.values import TEXT_CHARS, clip
from segue.domain.errors import AGAIN, CredentialsError, SegueError, ServiceAway
from segue.domain.events import AgentRaw, AgentStarted, AgentText, AgentUsage, Event
from segue.domain.job import Job, Mode
from segue.domain.outcome import Failure, FailureKind, Outcome
from segue.system.retry import Wait

_LOOK_SECONDS = 5.0
"""Seconds for one look at work whose time is up."""
_LOOKS_IN_VAIN = 4
"""How often the API must say so before a run counts as gone, or the key as refused."""
_TRIES = 3
_END_SECONDS = 10.0
_SEARCHES = (0.0, 1.0, 3.0)
"""How many pauses to wait before each search for a launch that was not answered."""
_BY_US = {"timeout": TIMEOUT, "interrupted": INTERRUPTED}
"""Why we have stopped a run, by the note that is kept until its outcome is stored."""


def loop_time() -> float:
    """Return the time of the event loop, in which deadlines are given."""
    return asyncio.get_running_loop().time()


def fail_to_start(failure: Failure, job: Job, duration: float = 0.0) -> Outcome:
    """Return the outcome of a job for which nothing was started."""
    facts = {"adopted": False}
    return Outcome("", failure, session=job.session, model=job.model, duration=duration, facts=facts)


class CloudJob:
    """One job in the cloud."""

    def __init__(
        self, api: CloudV0 | CloudV1, job: Job, order: CloudOrder, poll: float, folder: Callable[[], Path]
    ) -> None:
        """`poll`: seconds between two looks; `folder` is kept until the outcome is stored."""
        self._api, self._job, self._order = api, job, order
        self._poll, self._pause, self._folder = poll, min(1.0, poll), folder
        self._began = loop_time()
        self._deadline = self._began + job.limits.wall
        self._run: RunRef | None = None
        self._is_adopted = False
        self._is_doubtful = False
        """True if an answer did not say whether something was started."""
        self._wait: Wait | None = None
        self._look = Look(Status.UNKNOWN, "")
        self._failure: Failure | None = None
        self._looks_in_vain = 0
        """How many looks in a row were told that there is no such run, or that it is not ours to see."""

    async def events(self) -> AsyncGenerator[Event | Outcome, None]:
        """Yield everything that is seen; the last item is the outcome."""
        is_settled = False
        try:
            async with aclosing(self._start()) as waiting:
                async for event in waiting:
                    yield event
            assert self._run is not None
            ref = self._run
            yield AgentStarted("cursor-cloud", **self._name(ref), adopted=self._is_adopted)
            async with aclosing(self._watch(ref)) as seen:
                async for event in seen:
                    yield event
            outcome, used = await self._conclude(ref)
            is_settled = True
            for text in split(outcome.text, TEXT_CHARS):
                yield AgentText(text)
        except ServiceAway:
            is_settled = True  # the agent may be at work: `resume` finds it again
            raise
        except CloudError as error:
            is_settled, used = not error.unsure, None
            if away := self._leave(error):
                is_settled = True
                raise away from None
            late = loop_time() >= self._deadline
            outcome = fail_to_start(judge_refusal(error, late), self._job, loop_time() - self._began)
            outcome = replace(outcome, facts=self._name(self._run) if self._run else {})
        finally:
            if not is_settled:
                await self._abandon()
        if used is not None:
            yield used
        yield outcome

    def _name(self, ref: RunRef) -> dict[str, Any]:
        """Return where a run is found: the vendor's ids, and its page. Turns of v0 have no id."""
        run = {} if isinstance(self._api, CloudV0) else {"run_id": ref.run}
        return {"agent_id": ref.agent, **run, "url": ref.url}

    def _leave(self, error: CloudError) -> SegueError | None:
        """Return the error for a run that may be at work and cannot be seen now; None if there is none.

        The launch then has no outcome: `resume` finds the run again instead of paying for another one.
        """
        if not (self._run or self._is_doubtful or self._job.begun):
            return None
        page = self._run.url if self._run else ""
        kept = f"The cloud agent may still be at work; on resume it is found again. {page}".strip()
        if error.denied:
            hint = f"Log in or set its key again (segue doctor checks it), then {AGAIN}"
            return CredentialsError(judge_refusal(error, late=False).message, kept=kept, hint=hint)
        is_lost = error.away or error.limited or error.code == BAD_ANSWER
        may_resume = self._job.begun or (self._is_doubtful and self._job.limits.patience > 0)
        if not may_resume or not is_lost:
            return None
        what = f"Cursor's API cannot say what became of the agent: {error.message}."
        return ServiceAway(what, kept=kept, hint=f"When it is back, {AGAIN}")

    async def _start(self) -> AsyncGenerator[Event, None]:
        """Start or find the run; while the service is away, wait for it and try again."""
        while self._run is None:
            try:
                self._run = await self._find_or_launch()
            except CloudError as error:
                self._is_doubtful |= error.unsure
                may_repeat = self._api.mints_ids or not error.unsure
                may_pass = error.away or error.code == BAD_ANSWER
                if not (may_pass and may_repeat and self._job.limits.patience):
                    raise
                for event in self._note_absence(error.message):
                    yield event
                await asyncio.sleep(self._pause)
        for event in self._note_answer():
            yield event

    def _note_absence(self, reason: str) -> list[Event]:
        """Note that the API is away; raises ServiceAway when it has been so for too long."""
        if self._wait is None:
            self._wait = Wait("Cursor's API", reason, self._job.limits.patience)
            return [self._wait.began]
        self._wait.pause(reason)
        return []

    def _note_answer(self) -> list[Event]:
        wait, self._wait = self._wait, None
        return [wait.ended] if wait else []

    async def _find_or_launch(self) -> RunRef:
        last = RunRef.parse(self._job.session or "")
        if self._job.session is None:
            return await self._launch(self._order)
        if self._api.owns(last):
            try:
                return await self._follow_up(last)
            except CloudError as error:
                if not error.archived:
                    raise
        # A new agent continues where one that takes no messages stopped, if that can still be found out.
        with suppress(CloudError):
            branches = (await self._api.look(last, self._deadline)).branches(self._order.repository)
            if len(branches) == 1:
                return await self._launch(replace(self._order, base=branches[0], on_base=True))
        return await self._launch(self._order)

    async def _launch(self, order: CloudOrder) -> RunRef:
        if not self._api.mints_ids and (ref := await self._api.find(order, self._deadline)):
            self._is_adopted = True
            return ref
        try:
            return await self._api.launch(order, self._deadline)
        except CloudError as error:
            if not error.unsure:
                raise
            if (ref := await self._search(order)) is None:
                if error.code == "agent_id_conflict":
                    raise CloudError("agent_not_found", "the agent was deleted", status=404) from None
                raise
        self._is_adopted = True
        return ref

    async def _search(self, order: CloudOrder) -> RunRef | None:
        """Return the agent of a launch that was not answered; it may appear a little later."""
        for pause in _SEARCHES:
            await asyncio.sleep(min(pause * self._pause, max(0.0, self._deadline - loop_time())))
            with suppress(CloudError):
                if (ref := await self._api.find(order, self._deadline)) is not None:
                    return ref
        return None

    async def _follow_up(self, last: RunRef) -> RunRef:
        """Return the run after the session's last one; start it if it does not exist."""
        tries = _TRIES
        while True:
            newest = await self._api.latest(last.agent, self._deadline)
            if newest.run != last.run:
                self._is_adopted = True
                return newest
            try:
                return await self._api.follow_up(newest, self._order, self._deadline)
            except CloudError as error:
                is_busy = error.code == "agent_busy"
                tries -= not is_busy
                if not (is_busy or (error.unsure and tries)) or loop_time() + self._poll > self._deadline:
                    raise
            # If it was sent nevertheless, the agent's newest run will show.
            await asyncio.sleep(self._poll if is_busy else self._pause)

    async def _watch(self, ref: RunRef) -> AsyncGenerator[Event, None]:
        """Look at the run until it ends or its time is up."""
        while True:
            for event in await self._look_at(ref):
                yield event
            if self._look.status.is_terminal:
                word = self._read_note()
                self._failure = _BY_US[word] if word and self._look.may_be_ours else self._look.failure
                return
            if self._looks_in_vain >= _LOOKS_IN_VAIN:
                self._failure = DELETED
                return
            if (left := self._deadline - loop_time()) <= 0:
                self._failure = await self._end_late(ref)
                return
            await asyncio.sleep(min(self._poll, left))

    async def _look_at(self, ref: RunRef) -> list[Event]:
        """Look at the run; return what is new. A single refusal proves nothing: the run is paid for."""
        before = self._look.word
        try:
            self._look = await self._api.look(ref, self._deadline)
        except CloudError as error:
            if not (error.away or error.limited or error.code == UNREACHABLE):
                self._looks_in_vain += error.gone or error.denied
                if error.denied and self._looks_in_vain >= _LOOKS_IN_VAIN:
                    raise
            elif self._job.limits.patience and loop_time() < self._deadline:
                return self._note_absence(error.message)
            return []
        self._looks_in_vain = 0
        if self._is_adopted and self._look.age is not None:  # it has worked for a while already
            end = loop_time() - self._look.age + self._job.limits.wall
            self._deadline = max(end, self._began + _LOOK_SECONDS)
        status = AgentRaw("status", data={"status": clip(self._look.word, 100)})
        return [*self._note_answer(), *([status] if self._look.word != before else [])]

    async def _end_late(self, ref: RunRef) -> Failure | None:
        """Stop a run whose time is up, and look once more: that may have been too late or had no effect."""
        is_stopped = await self._stop(ref, "timeout")
        with suppress(CloudError):
            self._look = await self._api.look(ref, loop_time() + _LOOK_SECONDS)
        if is_stopped:
            return TIMEOUT
        if self._look.status.is_terminal:
            return self._look.failure
        what = f"the cloud agent did not finish within its time limit, and cannot be stopped: {ref.url}"
        return Failure(FailureKind.TIMEOUT, what)

    async def _conclude(self, ref: RunRef) -> tuple[Outcome, AgentUsage | None]:
        """Return the outcome, and what this job has used."""
        look, mode, failure = self._look, self._job.mode, self._failure
        if failure is None and mode is not Mode.EDIT and not look.text.strip():
            failure = Failure(FailureKind.NO_RESULT, f"the cloud agent ended well but gave no {mode}")
        branches = look.branches(self._order.repository)
        used = None if failure is DELETED else await self._read_usage(ref)
        outcome = Outcome(
            text=look.text,
            failure=failure,
            session=str(ref),
            model=self._job.model,
            usage=used.count() if used else None,
            duration=look.duration or loop_time() - self._began,
            branches=branches,
            facts={
                **self._name(ref),
                "status": look.word or None,
                "branches": list(branches),
                "pull_requests": sorted({one.pr for one in look.pushed if one.pr}),
                "adopted": self._is_adopted,
            },
        )
        return outcome, used

    async def _read_usage(self, ref: RunRef) -> AgentUsage | None:
        """Return what the run has used; the API may need a moment to count."""
        used: AgentUsage | None = None
        with suppress(CloudError):
            for _ in range(_TRIES):
                used = await self._api.usage(ref, loop_time() + _END_SECONDS)
                if used is None or used.input_tokens or used.output_tokens or used.cost_usd:
                    break
                await asyncio.sleep(self._pause)
        return used

    async def _abandon(self) -> None:
        """Stop the run, if there is one: nobody waits for the job any more."""
        with suppress(CloudError, TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                ref = self._run or await self._find_again(loop_time() + _END_SECONDS)
                if ref is not None:
                    await self._stop(ref, "interrupted")

    async def _find_again(self, deadline: float) -> RunRef | None:
        """Return the run that was started by a request whose answer was not waited for, if any."""
        last = RunRef.parse(self._job.session or "")
        if not self._api.owns(last):
            return await self._api.find(self._order, deadline)
        newest = await self._api.latest(last.agent, deadline)
        return newest if newest.run != last.run else None

    async def _stop(self, ref: RunRef, why: str) -> bool:
        """Stop the run, if the service lets us; return whether that was accepted. The reason is kept."""
        note, end = self._folder() / "stopped", loop_time() + _END_SECONDS
        note.write_text(why, encoding="ascii")
        for _ in range(_TRIES):
            try:
                await self._api.stop(ref, end)
                return True
            except CloudError as error:
                if not error.unsure:
                    note.unlink(missing_ok=True)  # whatever ended the work, it was not us
                if error.status < 500 or loop_time() + self._pause > end:
                    return False
            await asyncio.sleep(self._pause)
        return False

    def _read_note(self) -> str:
        """Return why we have stopped the run, now or before we were killed; empty if we have not."""
        with suppress(OSError):
            word = (self._folder() / "stopped").read_text(encoding="ascii")
            return word if word in _BY_US else ""
        return ""
