"""The one place where agents are launched: who makes an attempt, what it may cost, and what follows from it.

A phase makes its attempts in a plain loop, and launches the agent in the loop's body:

    attempts = context.attempts(PLAN, state)
    async for attempt in attempts:
        async with attempt.launch(LaunchRequest(prompt, Mode.PLAN, folder)) as outcome:
            attempt.output = LaunchOutput(...)  # what came of it
    attempts.result

`Attempts` decides after each of them: done, once more, somebody else, wait, or give up. What the journal
knows is not made again: the loop passes over it.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from segue.domain.errors import CredentialsError, WaitsElsewhere
from segue.domain.events import (
    AgentEnded,
    AgentReplaced,
    BudgetPassed,
    Delivery,
    Event,
    PromptSent,
    RunParked,
    Tampered,
    VerdictGiven,
    WordsDelivered,
)
from segue.domain.job import Job, Mode, Prompt
from segue.domain.outcome import Failure, FailureKind, Outcome
from segue.domain.proof import Tampering
from segue.domain.results import LaunchInput, LaunchOutput, StepFacts, StepResult, read_as
from segue.domain.run import Step, StepState
from segue.domain.verdict import Action, Result
from segue.flow.agents import AgentChain, ChosenAgent, Launcher, Series
from segue.flow.budgets import BudgetWatch
from segue.flow.endings import UNABLE, may_go_elsewhere
from segue.flow.errors import ErrorRecorder
from segue.flow.say import listening, once, say, take_said
from segue.flow.stuck import StuckRule, StuckWatch, look_at
from segue.flow.watched import run_agent
from segue.prompts.task import words_prompt

if TYPE_CHECKING:
    from segue.store.journal import Journal

MAX_PARKS = 5
"""How often one phase of a task may wait for a usage limit to end before a person is asked."""

_MOST_LOST = 3
"""How many launches of one phase may get lost without counting as failed attempts."""


_SENT_BACK_ONCE = {FailureKind.TAMPERED, FailureKind.UNSHOWN, FailureKind.STUCK}
"""Who touched what it must not touch, gave up without showing why, or turned in circles, may try again."""


class WritePrompt(Protocol):
    """Writes a prompt at the last moment before a launch, with what people said until then."""

    def __call__(self, *, comments: Collection[str]) -> Prompt:
        """Return the prompt."""


class LaunchRequest(Struct, frozen=True):
    """What an agent is asked to do in one attempt."""

    prompt: Prompt | WritePrompt
    """A function where people may talk to this agent: it gets what they said and the agent lacks."""
    mode: Mode
    workspace: Path
    base: str | None = None
    session: str | None = None
    """The conversation to continue, for agents that can."""
    web: bool = False
    """Whether it may look things up on the web although it may not edit."""
    before: LaunchInput = field(default_factory=LaunchInput)
    """What was seen before the launch and is needed after it, also by another process."""
    commits: bool = False
    """Whether what it changes is committed next: its result is stored together with that intent."""
    guarded: bool = True
    """Whether what it must not touch is compared afterwards; not where somebody else works meanwhile."""


class Attempts:
    """The attempts at one phase: iterate to make them, until one succeeds or no more are allowed."""

    def __init__(self, launcher: Launcher, series: Series, counts: dict[str, int]) -> None:
        """`counts` has the number of the last attempt, by phase; this one's is counted there."""
        self.launcher, self.series = launcher, series
        self.result: StepResult[LaunchOutput]
        """What the last attempt has left; once there was one."""
        self._journal = launcher.journal
        self._counts = counts
        self._last: LaunchAttempt | None = None
        self._is_recorded = False
        self._failed = self._parks = self._lost = 0
        self._tried: list[ChosenAgent] = []
        self._fresh = False
        self._feedback: str | None = None
        self._more = False

    def __aiter__(self) -> Attempts:
        return self

    async def __anext__(self) -> LaunchAttempt:
        while self._last is None or await self._follow(self._last):
            number = self._counts[self.series.phase] = self._counts.get(self.series.phase, 0) + 1
            self._last = self._next(number)
            known = self._journal.recorded(self._last.key, LaunchOutput)
            self._is_recorded = known is not None
            if known is None:
                return self._last
            self.result = known
        raise StopAsyncIteration

    async def _follow(self, last: LaunchAttempt) -> bool:
        """Do what follows from the last attempt; return whether there is another one."""
        failure = self.result.output.failure
        self._more = failure is None and await self._has_more(last.number + 1)
        if failure is None:
            return self._more
        decided = self._decide(last.number, last.by, self.result.output)
        if isinstance(decided, ChosenAgent):
            await self._announce(last, decided, failure)
            self._failed = 0
            self._feedback = failure.message if failure.kind is FailureKind.STUCK else self._feedback
            return True
        if isinstance(decided, float) and self._parks < MAX_PARKS:
            self._parks += 1
            await self._park(last.number, decided)
            return True
        if decided == "retry":
            self._failed += 1
            if self._failed < max(self.series.attempts, 2 if failure.kind in _SENT_BACK_ONCE else 1):
                self._feedback = failure.message
                return True
        if decided == "again":
            self._lost += failure.kind is FailureKind.LOST
            if failure.kind is not FailureKind.LOST or self._lost <= _MOST_LOST:
                return True
        if failure.kind is FailureKind.AUTH:
            raise _deny(self.series.name, last.by.name, failure, self._journal.run.id)
        return False

    def _next(self, number: int) -> LaunchAttempt:
        before = self._last if self._more else None
        by = self._next_agent(number) if before is None else before.by
        session = self.result.output.session if before is not None and by.agent.can.follow_up else None
        return LaunchAttempt(self, number, by, self._feedback, self._fresh, self._more, session)

    async def _has_more(self, number: int) -> bool:
        """Return whether an agent that ended well is launched again, because somebody has said more."""
        task, begun = self.series.task, find_begun(self._journal, self.series.key(number))
        if begun is not None:
            return read_as(LaunchInput, begun.input).more
        if self._is_recorded or self.series.about is None:  # or what followed then would not follow now
            return False
        await take_said(self.launcher, task)
        return bool(self.launcher.view.unheard(task))

    def _decide(
        self, number: int, by: ChosenAgent, output: LaunchOutput
    ) -> ChosenAgent | float | Literal["retry", "again", "stop"]:
        """Return what follows a failed attempt: who takes over, until when to wait, or what to do."""
        failure, series = output.failure, self.series
        assert failure is not None
        if self._is_recorded and failure.kind is FailureKind.AUTH:
            after = self._begun_by(number + 1)
            if after is None or after is by:
                return "again"  # somebody may have logged in since
        if failure.kind in UNABLE:
            self.launcher.rest(by, failure)
            # A wait that a crash interrupted continues: what was decided then is not decided again.
            waits = self._journal.state(series.park_key(number)) is not None
            other = self._begun_by(number + 1) or self.launcher.find_able(self._left())
            if other is not None and other is not by and not waits:
                return other
            until = self._first_end(by, failure)
            if until is not None or waits:
                return until or 0.0
        if series.retry_recorded and self._is_recorded:
            return "again"
        if failure.kind is FailureKind.CONTEXT and output.continued and not self._fresh:
            self._fresh = True
            return "again"  # a new conversation is shorter
        if (better := self._find_better(number, by, failure)) is not None:
            return better
        if output.verdict.action is Action.STOP or failure.kind is FailureKind.USAGE_LIMIT:
            return "stop"
        return "again" if failure.kind in (FailureKind.INTERRUPTED, FailureKind.LOST) else "retry"

    def _find_better(self, number: int, by: ChosenAgent, failure: Failure) -> ChosenAgent | None:
        """Return who takes over the work at which an agent failed that is able to work."""
        if not may_go_elsewhere(failure, self._failed + 1 >= self.series.attempts):
            return None
        self._tried.append(by)
        other = self._begun_by(number + 1) or self.launcher.find_able(self._left())
        return None if other in self._tried else other

    def _next_agent(self, number: int) -> ChosenAgent:
        """Return who makes this attempt: whoever began it, if it was begun; else the first who can."""
        chain = self._left() or self.series.chain
        best = self._begun_by(number) or self.launcher.find_able(chain)
        return best or min(chain, key=lambda by: self.launcher.resting.get(by.name, 0.0))

    def _left(self) -> AgentChain:
        """Return the agents that have not failed at this very work."""
        return [by for by in self.series.chain if by not in self._tried]

    def _begun_by(self, number: int) -> ChosenAgent | None:
        key = self.series.key(number)
        for step in self._journal.steps(key):
            for by in self.series.chain:
                if (step.key, step.agent, step.model) == (key, by.agent.name, by.model):
                    return by
        return None

    def _first_end(self, by: ChosenAgent, failure: Failure) -> float | None:
        """Return when the first limit ends; None when no agent of the chain said until when."""
        now, limits = time.time(), self.launcher.view.limits
        others = (
            limits[one.name] for one in self.series.chain if one is not by and limits.get(one.name, 0) > now
        )
        own = [failure.until] if failure.until is not None else []
        return min((*own, *others), default=None)

    async def _announce(self, last: LaunchAttempt, other: ChosenAgent, failure: Failure) -> None:
        """Say who takes over, once."""
        if self._journal.state(self.series.key(last.number + 1)) is None:
            names = (self.series.name, self.series.phase, last.by.name, other.name)
            await self._journal.emit(AgentReplaced(*names, failure.kind, failure.message, failure.until))

    async def _park(self, number: int, until: float) -> None:
        """Wait, durably, until the first of the limits ends."""
        key, task, longest = self.series.park_key(number), self.series.name, self.launcher.longest_wait
        if until <= time.time():
            await self._journal.sleep(key, until)
            return
        await self._journal.emit(RunParked(task, until))
        if longest is not None and until - time.time() > longest:
            raise WaitsElsewhere(f"Task {task} waits for a usage limit to end.", until)
        seat = self.launcher.seat
        async with seat.rest() if seat is not None else nullcontext():
            await self._journal.sleep(key, until)


class LaunchAttempt:
    """One attempt: its number, who makes it, and what was wrong with the last one."""

    def __init__(
        self,
        attempts: Attempts,
        number: int,
        by: ChosenAgent,
        feedback: str | None,
        fresh: bool,
        more: bool = False,
        session: str | None = None,
    ) -> None:
        """`fresh`: no conversation is continued, because it has become too long.

        `more`: somebody has said more since the last one ended well, in the conversation `session`.
        """
        self.number, self.by, self.feedback, self._fresh = number, by, feedback, fresh
        self._more, self._continued = more, session
        self.key = attempts.series.key(number)
        """The name of its step in the journal."""
        self.output: LaunchOutput
        """What came of it, given the evidence; set while it is launched."""
        self._attempts, self._launcher, self._series = attempts, attempts.launcher, attempts.series

    async def _write(self, request: LaunchRequest) -> tuple[Prompt, Mapping[int, str]]:
        """Return the prompt with what people said that it must say: all of it, or what a conversation lacks.

        This is done last, because there is no other way to tell most agents anything.
        """
        if isinstance(request.prompt, Prompt):
            return request.prompt, {}
        view, task, session = self._launcher.view, self._series.task, self._continued or request.session
        begun = find_begun(self._launcher.journal, self.key)
        if begun is None:
            await take_said(self._launcher, task)
        said = view.comments.get(task, {})
        if begun is not None:  # what was said since is told to its agent
            known = read_as(LaunchInput, begun.input).words
            said = {number: said[number] for number in known if number in said}
        elif self._usable(session):
            said = view.unheard(task)
        more = self._continued is not None
        return words_prompt(said.values()) if more else request.prompt(comments=said.values()), said

    @asynccontextmanager
    async def launch(
        self, request: LaunchRequest, hear: Callable[[Event], None] | None = None
    ) -> AsyncIterator[Outcome]:
        """Launch the agent and give the block how it ended; the block sets `output`, which is then recorded.

        All of this is one step of the journal: the intent is stored before the agent starts, and an agent
        that another process has started is adopted. `hear` sees every event.
        """
        launcher, series, journal = self._launcher, self._series, self._launcher.journal
        agent, lost = self.by.agent, self._was_lost()
        if self._continued is not None:  # the next turn of the conversation that ended well
            request = replace(request, session=self._continued)
        async with AsyncExitStack() as stack:
            stack.callback(launcher.count, self.key)
            if (most := launcher.slots) is not None:
                await stack.enter_async_context(journal.slot(f"agent {agent.name}", most))
            begun = journal.state(self.key) is not None
            if not begun:
                launcher.ensure_room(request.workspace)
                launcher.admit(self.key, series.task)
                if launcher.guard is not None and request.guarded:
                    launcher.guard.before(self.key)
            prompt, words = await self._write(request)
            facts = self._facts(replace(request.before, prompt=prompt.digest, words=tuple(words)))
            step = await stack.enter_async_context(journal.enter(self.key, LaunchOutput, facts))
            await journal.emit(PromptSent(prompt.digest, len(prompt.text), prompt.text), self.key)
            await self._note_words(words)
            launcher.count(self.key)
            errors = ErrorRecorder(
                journal, series.task, series.stored_phase, series.build_phase, self.key, hear
            )
            if lost:
                outcome = Outcome(failure=Failure(FailureKind.LOST, "it was at work on another machine"))
                await errors.emit(AgentEnded.of(outcome))
            else:
                watch = BudgetWatch(launcher.budgets, launcher.view, self.key, series.task)
                stack.callback(watch.forget)
                job = self._job(request, prompt, step.token, begun)
                emit = once(launcher, errors.emit)
                stuck = None if agent.can.cloud else self._watch_for_circles(job, emit)
                listens = listening(launcher, series.task, agent, step.token)
                async with nullcontext() if isinstance(request.prompt, Prompt) else listens:
                    outcome = await run_agent(agent, job, emit, watch, stuck)
                watch.forget()
            outcome, tampering = await self._examine(journal.redact(outcome), request.guarded)
            yield outcome
            await errors.conclude(outcome, self.output.failure)
            if over := launcher.budgets.passed(launcher.view, series.task):
                await journal.emit(BudgetPassed(series.task, over), self.key)
            if series.task:
                await journal.emit(VerdictGiven.of(series.task, self.output.verdict), self.key)
            step.outcome = self._result(request, outcome, tampering)
        self._attempts.result = step.outcome
        journal.once_stored(lambda: agent.forget(step.token))

    async def _note_words(self, words: Collection[int]) -> None:
        new = tuple(one for one in words if one not in self._launcher.view.heard)
        if new:
            how: Delivery = "turn" if self._continued is not None else "launch"
            await self._launcher.journal.emit(WordsDelivered(new, how), self.key)

    def _facts(self, known: LaunchInput) -> StepFacts:
        return StepFacts(
            self._series.task or None,
            self._series.stored_phase,
            self.number,
            self.by.agent.name,
            self.by.model,
            self._series.build_phase,
            replace(known, more=self._more),
        )

    def _watch_for_circles(self, job: Job, emit: Callable[[Event], Awaitable[object]]) -> StuckWatch:
        rule, task = StuckRule(adopted=job.begun), self._series.task
        look, tell = partial(look_at, job.workspace), partial(say, self._launcher, task)
        return StuckWatch(rule, task, job.limits.stuck, emit, look, tell)

    def _was_lost(self) -> bool:
        """Return whether another machine launched this agent: it cannot be adopted from here."""
        is_elsewhere = self._launcher.is_elsewhere
        if is_elsewhere is None or self.by.agent.can.cloud:
            return False
        begun = find_begun(self._launcher.journal, self.key)
        return begun is not None and begun.state is StepState.STARTED and is_elsewhere(begun.token)

    def _job(self, request: LaunchRequest, prompt: Prompt, token: str, begun: bool) -> Job:
        launcher, series = self._launcher, self._series
        labels = {"run": launcher.journal.run.id, "task": series.name, "phase": series.stored_phase}
        labels |= {"lane": str(launcher.lane)} if launcher.lane else {}
        limits = launcher.limits
        if launcher.find_able([other for other in series.chain if other is not self.by]) is not None:
            # It need not wait for a service that is away: another agent can take over.
            limits = replace(limits, patience=0.0)
        limits = replace(limits, cost_usd=launcher.budgets.money_left(launcher.view, series.task))
        return Job(
            token=token,
            prompt=prompt,
            workspace=request.workspace,
            mode=request.mode,
            model=self.by.model,
            session=self._usable(request.session),
            base=request.base,
            web=request.web,
            limits=limits,
            begun=begun,
            labels={**labels, "attempt": str(self.number)},
        )

    def _usable(self, session: str | None) -> str | None:
        """Return the conversation that is continued; what was said more continues the one before it."""
        is_new = self._fresh and self._continued is None
        return None if is_new or session in self._launcher.forgotten else session

    async def _examine(self, outcome: Outcome, guarded: bool) -> tuple[Outcome, tuple[Tampering, ...]]:
        """Look what the agent did to what it must not touch; some of it fails the attempt."""
        guard, journal, series = self._launcher.guard, self._launcher.journal, self._series
        if guard is None or not guarded:
            return outcome, ()
        label = f"{journal.run.id}/{self.key}".replace(" ", "-")
        found, failure = await guard.after(self.key, series.about, label, outcome.duration)
        if found:
            await journal.emit(Tampered(series.task, found), self.key)
        inside = [one.text for one in found if one.subject == "submodule"]
        facts = {**outcome.facts, **({"inside": inside} if inside else {})}
        return replace(outcome, failure=outcome.failure or failure, facts=facts), found

    def _result(
        self, request: LaunchRequest, outcome: Outcome, tampering: tuple[Tampering, ...]
    ) -> StepResult[LaunchOutput]:
        """Return what the step stores: what the phase made of the launch, and what is known of it anyway."""
        output = replace(
            self.output,
            exit_code=outcome.exit_code,
            agent=self.by.agent.name,
            session=outcome.session,
            continued=self._usable(request.session) is not None,
            model=outcome.model,
            usage=outcome.usage,
            duration=round(outcome.duration, 3),
            text=self.output.text or outcome.text,
            tampering=tampering,
            branches=self.output.branches or outcome.branches,
            agent_id=self.output.agent_id or outcome.facts.get("agent_id"),
            url=self.output.url or outcome.facts.get("url"),
        )
        passed = output.failure is None and output.verdict.result is Result.PASS
        return StepResult(passed, output, request.commits and passed and output.changed and not tampering)


def find_begun(journal: Journal, key: str) -> Step | None:
    """Return a step that was begun, by this process or another one."""
    return next((step for step in journal.steps(key) if step.key == key), None)


def _deny(work: str, agent: str, failure: Failure, run: str) -> CredentialsError:
    """Return the error for an agent that is not, or no longer, allowed to work."""
    where = f"on task {work}" if work else "on the plan"
    return CredentialsError(
        f"{agent} is not allowed to work {where}: {failure.message}",
        kept="Everything done so far.",
        hint=f"Log in or set its key (segue doctor checks it), then: segue resume {run}",
    )
