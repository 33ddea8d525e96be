"""The one place where agents are launched: caps before it, its end after it, fallbacks and usage limits."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, nullcontext
from pathlib import Path
from typing import Literal, Protocol

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from segue.domain.errors import WaitsElsewhere
from segue.domain.events import (
    AgentEnded,
    AgentReplaced,
    Event,
    PromptSent,
    RunParked,
    Tampered,
    VerdictGiven,
)
from segue.domain.job import AgentChoice, Job, Limits, Mode, Prompt
from segue.domain.outcome import Budget, Failure, FailureKind, Outcome
from segue.domain.proof import Tampering
from segue.domain.results import LaunchInput, LaunchOutput, StepResult, read_as
from segue.domain.run import StepState
from segue.domain.task import Task
from segue.domain.text import LONGEST_ANSWER, is_too_long
from segue.domain.verdict import Action, Result
from segue.flow.errors import ErrorRecorder
from segue.flow.lanes import Seat
from segue.flow.refusals import OverBudget as OverBudget
from segue.flow.refusals import deny
from segue.ports import Agent, Journal, StepFacts
from segue.view.run import RunView

MAX_PARKS = 5
"""How often one phase of a task may wait for a usage limit to end before a person is asked."""

_MOST_LOST = 3
"""How many launches of one phase may get lost without counting as failed attempts."""
_UNABLE = {FailureKind.USAGE_LIMIT, FailureKind.RATE_LIMIT, FailureKind.AUTH, FailureKind.OUTAGE}
_UNABLE |= {FailureKind.NOT_STARTED}
"""Failures for which an agent or its service is to blame, not the work: another one may do better."""

_REST = 900.0
"""Seconds for which an agent is passed over when it did not say until when it cannot work."""


class ChosenAgent(Struct, frozen=True):
    """An agent in a role, with the model it should use."""

    agent: Agent
    model: str | None = None

    @property
    def name(self) -> str:
        """`agent`, or `agent:model`."""
        return AgentChoice(self.agent.name, self.model).name


AgentChain = Sequence[ChosenAgent]
"""Who plays a role: the preferred one first, then those to fall back on."""

Emit = Callable[[Event], Awaitable[object]]


async def run_agent(agent: Agent, job: Job, emit: Emit) -> Outcome:
    """Run a job to its end, pass on what is seen, and return how it ended."""
    outcome: Outcome | None = None
    async with aclosing(agent.run(job)) as items:
        async for item in items:
            if isinstance(item, Outcome):
                outcome = item
            else:
                await emit(item)
    if outcome is None:
        failure = Failure(FailureKind.NO_RESULT, f"Agent {agent.name} ended without an outcome.")
        outcome = Outcome(failure=failure)
    if is_too_long(outcome.text):
        size = f"at most {LONGEST_ANSWER // 1024**2} MB ({LONGEST_ANSWER:,} characters) are read"
        failure = Failure(FailureKind.OUTPUT_LIMIT, f"The answer of agent {agent.name} is too long: {size}.")
        outcome = replace(outcome, text="", failure=outcome.failure or failure)
    await emit(AgentEnded.of(outcome))
    return outcome


Conclude = Callable[[Outcome], Awaitable[LaunchOutput]]
"""Turns an outcome into what the step stores, given the evidence; the launcher adds the rest."""


class LaunchRequest(Struct, frozen=True, kw_only=True):
    """One attempt at one piece of work."""

    key: str
    """The step's name in the journal."""
    phase: str
    attempt: int
    prompt: Prompt
    mode: Mode
    by: ChosenAgent
    workspace: Path
    task: str = ""
    """The task's key; empty for work that belongs to the whole run."""
    about: Task | None = None
    """The task itself."""
    name: str = ""
    """The name of work that belongs to no task, for the agent's environment."""
    base: str | None = None
    session: str | None = None
    """The conversation to continue, for agents that can."""
    web: bool = False
    """Whether it may look things up on the web although it may not edit."""
    build_phase: str | None = None
    before: LaunchInput = field(default_factory=LaunchInput)
    """What was seen before the launch and is needed after it, also by another process."""
    hear: Callable[[Event], None] | None = None
    """Sees every event of the agent."""
    commits: bool = False
    """Whether what it changes is committed next: its result is stored together with that intent."""


class Try(Struct, frozen=True):
    """One attempt: its number, who makes it, and what was wrong with the last one."""

    number: int
    by: ChosenAgent
    feedback: str | None


class Series(Struct, frozen=True, kw_only=True):
    """The attempts at one phase of one task: who makes them, and what their steps are called."""

    chain: AgentChain
    task: str
    phase: str
    folder: str
    """Where its steps are in the journal: `task/3`."""
    first: int = 1
    attempts: int = 1
    """How many failed attempts are allowed."""
    retry_recorded: bool = False
    """Whether a failure that another process recorded is tried once more."""

    def key(self, number: int) -> str:
        """Return the name of an attempt's step."""
        return f"{self.folder}/{self.phase}/{number}"

    def park_key(self, number: int) -> str:
        """Return the name of the step that waits after an attempt."""
        return f"{self.folder}/park/{self.phase}/{number}"


Attempt = Callable[[Try], Awaitable[StepResult[LaunchOutput]]]


class Guard(Protocol):
    """Keeps what an agent must not touch."""

    def before(self, step: str) -> None:
        """Keep what is there before a step's agent starts."""

    async def after(
        self, step: str, task: Task | None, label: str
    ) -> tuple[tuple[Tampering, ...], Failure | None]:
        """Compare; what was touched is put back and named, and fails the attempt where that is due."""


class Launcher(Struct):
    """Launches the agents of one run, within its budget."""

    journal: Journal
    view: RunView
    limits: Limits = Limits()
    budget: Budget = Budget()
    attempts: int = 1
    """How many failed attempts a phase allows."""
    guard: Guard | None = None
    """Watches over what agents must not touch; None where they have no work tree."""
    slots: int | None = None
    """How many launches of one agent are at work at once, in all runs that share the database."""
    shared_slots: Mapping[str, int] = field(default_factory=dict)
    """The same for single agents, on all machines of a fleet."""
    seat: Seat | None = None
    """The seat of the task, where several are worked on at once."""
    lane: int = 0
    """The lane in which it works; 0: one task at a time."""
    longest_wait: float | None = None
    """Seconds for which a usage limit is waited for in this process; None: however long it takes."""
    is_elsewhere: Callable[[str], bool] | None = None
    """Whether the agent of a launch that another process began was at work on another machine."""
    forgotten: frozenset[str] = frozenset()
    """Conversations that only another machine could continue."""
    resting: dict[str, float] = field(default_factory=dict)
    """Agents that cannot work, and until when: the others take over."""
    _hurried: set[str] = field(default_factory=set)
    """Launches that need not wait for a service that is away, because another agent can take over."""
    _admitted: set[str] = field(default_factory=set)
    """Launches within the budget that the view does not count yet: several may begin at once."""

    def __post_init__(self) -> None:
        self.resting.update(self.view.limits)

    async def launch(self, request: LaunchRequest, conclude: Conclude) -> StepResult[LaunchOutput]:
        """Launch the agent, or return what the journal knows of this launch."""
        known = self.journal.recorded(request.key, LaunchOutput)
        if known is not None:
            return known
        name = request.by.agent.name
        limits = [most for most in (self.slots, self.shared_slots.get(name)) if most is not None]
        if not limits:
            return await self._launch(request, conclude)
        async with self.journal.slot(f"agent {name}", min(limits)):
            return await self._launch(request, conclude)

    async def _launch(self, request: LaunchRequest, conclude: Conclude) -> StepResult[LaunchOutput]:
        used = ""
        lost = self._was_lost(request)

        async def work(token: str) -> StepResult[LaunchOutput]:
            nonlocal used
            used = token
            return await self._work(request, token, conclude, lost)

        if self.journal.state(request.key) is None:
            self._admit(request)
            if self.guard is not None:
                self.guard.before(request.key)
        facts = StepFacts(
            request.task or None,
            request.phase,
            request.attempt,
            request.by.agent.name,
            request.by.model,
            request.build_phase,
            msgspec.structs.replace(request.before, prompt=request.prompt.digest),
        )
        try:
            result = await self.journal.step(request.key, LaunchOutput, work, facts=facts)
        finally:
            self._admitted.discard(request.key)
        self.journal.once_stored(lambda: request.by.agent.forget(used))
        return result

    async def attempt(self, series: Series, make: Attempt) -> tuple[int, StepResult[LaunchOutput]]:
        """Attempt until one succeeds or no more are allowed; returns the last number and its result."""
        failed = parks = lost = 0
        number, feedback = series.first, None
        while True:
            by = self._next_agent(series, number)
            recorded = self.journal.state(series.key(number)) is StepState.FAILED
            if self._able([other for other in series.chain if other is not by]) is not None:
                self._hurried.add(series.key(number))
            result = await make(Try(number, by, feedback))
            failure = result.output.failure
            if failure is None:
                return number, result
            match self._decide(series, number, by, result.output, recorded):
                case ChosenAgent() as other:
                    await self._announce(series, number, by, other, failure)
                case float() as until if parks < MAX_PARKS:
                    parks += 1
                    await self._park(series, number, until)
                case "retry" if (failed := failed + 1) < _allowed(series, failure):
                    feedback = failure.message
                case "again" if failure.kind is not FailureKind.LOST or (lost := lost + 1) <= _MOST_LOST:
                    pass
                case _ if failure.kind is FailureKind.AUTH:
                    raise deny(series.task, by.name, failure, self.journal.run.id)
                case _:
                    return number, result
            number += 1

    def _decide(
        self, series: Series, number: int, by: ChosenAgent, output: LaunchOutput, recorded: bool
    ) -> ChosenAgent | float | Literal["retry", "again", "stop"]:
        """Return what follows a failed attempt: who takes over, until when to wait, or what to do."""
        failure = output.failure
        assert failure is not None
        if recorded and failure.kind is FailureKind.AUTH:
            after = self._begun_by(series, number + 1)
            if after is None or after is by:
                return "again"  # somebody may have logged in since
        if failure.kind in _UNABLE:
            self._rest(by, failure)
            # A wait that a crash interrupted continues: what was decided then is not decided again.
            waits = self.journal.state(series.park_key(number)) is not None
            other = self._begun_by(series, number + 1) or self._able(series.chain)
            if other is not None and other is not by and not waits:
                return other
            until = self._first_end(series.chain, by, failure)
            if until is not None or waits:
                return until or 0.0
        if series.retry_recorded and recorded:
            return "again"
        if output.verdict.action is Action.STOP or failure.kind is FailureKind.USAGE_LIMIT:
            return "stop"
        return "again" if failure.kind in (FailureKind.INTERRUPTED, FailureKind.LOST) else "retry"

    def _was_lost(self, request: LaunchRequest) -> bool:
        """Return whether another machine launched this agent: it cannot be adopted from here."""
        if self.is_elsewhere is None or request.by.agent.can.cloud:
            return False
        begun = [step for step in self.journal.steps(request.key) if step.key == request.key]
        return bool(begun) and begun[0].state is StepState.STARTED and self.is_elsewhere(begun[0].token)

    async def _work(
        self, request: LaunchRequest, token: str, conclude: Conclude, lost: bool
    ) -> StepResult[LaunchOutput]:
        text = request.prompt.text
        await self.journal.emit(PromptSent(request.prompt.digest, len(text), text), request.key)
        self._admitted.discard(request.key)
        errors = ErrorRecorder(self.journal, request.task, request.phase, request.build_phase, request.key)

        async def emit(event: Event) -> None:
            event = (await self.journal.emit(event, request.key)).event
            await errors.see(event)
            if request.hear is not None:
                request.hear(event)

        if lost:
            outcome = Outcome(failure=Failure(FailureKind.LOST, "it was at work on another machine"))
            await emit(AgentEnded.of(outcome))
        else:
            outcome = await run_agent(request.by.agent, self._job(request, token), emit)
        outcome = self.journal.redact(outcome)
        outcome, tampering = await self._examine(request, outcome)
        concluded = await conclude(outcome)
        await errors.conclude(outcome, concluded.failure)
        if request.task:
            await self.journal.emit(VerdictGiven.of(request.task, concluded.verdict), request.key)
        output = msgspec.structs.replace(
            concluded,
            exit_code=outcome.exit_code,
            agent=request.by.agent.name,
            session=outcome.session,
            model=outcome.model,
            usage=outcome.usage,
            duration=round(outcome.duration, 3),
            text=concluded.text or outcome.text,
            tampering=tampering,
        )
        passed = concluded.failure is None and concluded.verdict.result is Result.PASS
        return StepResult(passed, output, request.commits and passed and output.changed and not tampering)

    async def _examine(
        self, request: LaunchRequest, outcome: Outcome
    ) -> tuple[Outcome, tuple[Tampering, ...]]:
        """Look what the agent did to what it must not touch; some of it fails the attempt."""
        if self.guard is None:
            return outcome, ()
        label = f"{self.journal.run.id}/{request.key}".replace(" ", "-")
        found, failure = await self.guard.after(request.key, request.about, label)
        if found:
            await self.journal.emit(Tampered(request.task, found), request.key)
        return replace(outcome, failure=outcome.failure or failure), found

    def _job(self, request: LaunchRequest, token: str) -> Job:
        name = request.task or request.name
        labels = {"run": self.journal.run.id, "task": name, "phase": request.phase}
        labels |= {"lane": str(self.lane)} if self.lane else {}
        return Job(
            token=token,
            prompt=request.prompt,
            workspace=request.workspace,
            mode=request.mode,
            model=request.by.model,
            session=request.session if request.session not in self.forgotten else None,
            base=request.base,
            web=request.web,
            limits=replace(self.limits, patience=0.0) if request.key in self._hurried else self.limits,
            labels={**labels, "attempt": str(request.attempt)},
        )

    def _admit(self, request: LaunchRequest) -> None:
        """Check every cap before money is spent; raise OverBudget."""
        reason = self.budget.exceeded(self.view.launches + len(self._admitted), self.view.usage)
        if reason:
            work = f"Task {request.task}" if request.task else "The plan"
            raise OverBudget(reason, work, self.journal.run.id)
        self._admitted.add(request.key)

    def _next_agent(self, series: Series, number: int) -> ChosenAgent:
        """Return who makes this attempt: whoever began it, if it was begun; else the first who can."""
        best = self._begun_by(series, number) or self._able(series.chain)
        return best or min(series.chain, key=lambda by: self.resting[by.name])

    def _begun_by(self, series: Series, number: int) -> ChosenAgent | None:
        key = series.key(number)
        for step in self.journal.steps(key):
            for by in series.chain:
                if (step.key, step.agent, step.model) == (key, by.agent.name, by.model):
                    return by
        return None

    def _able(self, chain: AgentChain) -> ChosenAgent | None:
        now = time.time()
        return next((by for by in chain if self.resting.get(by.name, 0) <= now), None)

    def _first_end(self, chain: AgentChain, by: ChosenAgent, failure: Failure) -> float | None:
        """Return when the first limit ends; None when no agent of the chain said until when."""
        now, limits = time.time(), self.view.limits
        others = (limits[one.name] for one in chain if one is not by and limits.get(one.name, 0) > now)
        own = [failure.until] if failure.until is not None else []
        return min((*own, *others), default=None)

    def _rest(self, by: ChosenAgent, failure: Failure) -> None:
        forever = failure.kind in (FailureKind.AUTH, FailureKind.NOT_STARTED)
        self.resting[by.name] = float("inf") if forever else failure.until or time.time() + _REST

    async def _announce(
        self, series: Series, number: int, by: ChosenAgent, other: ChosenAgent, failure: Failure
    ) -> None:
        """Say who takes over, once."""
        if self.journal.state(series.key(number + 1)) is None:
            names = (series.task, series.phase, by.name, other.name)
            await self.journal.emit(AgentReplaced(*names, failure.kind, failure.message, failure.until))

    async def _park(self, series: Series, number: int, until: float) -> None:
        """Wait, durably, until the first of the limits ends."""
        if until <= time.time():
            await self.journal.sleep(series.park_key(number), until)
            return
        await self.journal.emit(RunParked(series.task, until))
        if self.longest_wait is not None and until - time.time() > self.longest_wait:
            raise WaitsElsewhere(f"Task {series.task} waits for a usage limit to end.", until)
        async with self.seat.rest() if self.seat is not None else nullcontext():
            await self.journal.sleep(series.park_key(number), until)


def _allowed(series: Series, failure: Failure) -> int:
    """Return how many failed attempts a series allows; one that touched what it must not gets another."""
    return max(series.attempts, 2 if failure.kind is FailureKind.TAMPERED else 1)


def seen_before(journal: Journal, key: str) -> LaunchInput:
    """Return what was stored when a launch began; nothing if it never did."""
    found = next((step.input for step in journal.steps(key) if step.key == key), {})
    return read_as(LaunchInput, found)
