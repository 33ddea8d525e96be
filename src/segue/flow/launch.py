"""One launch of an agent as a journalled step: caps before it, evidence after it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Any

from segue.domain.errors import NeedsHuman
from segue.domain.event import EventType
from segue.domain.failure import Failure
from segue.domain.job import Job, Mode
from segue.domain.outcome import Outcome
from segue.domain.prompt import Prompt
from segue.domain.run import StepState
from segue.domain.task import Task
from segue.domain.verdict import Verdict
from segue.flow.kit import Kit
from segue.ports import StepFacts, StepResult

_KEPT_TEXT = 256 * 1024


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What an outcome means in the light of the evidence."""

    verdict: Verdict
    failure: Failure | None
    evidence: dict[str, Any]


Conclude = Callable[[Outcome], Awaitable[Conclusion]]


@dataclass(frozen=True, slots=True)
class Launch:
    """One attempt at one phase of one task."""

    task: Task
    phase: str
    attempt: int
    prompt: Prompt
    mode: Mode
    base: str
    session: str | None = None
    """The conversation to go on with, for agents that can."""

    @property
    def key(self) -> str:
        """The step's name in the journal."""
        return f"task/{self.task.key}/{self.phase}/{self.attempt}"

    def job(self, kit: Kit, token: str) -> Job:
        """What the agent is asked."""
        labels = {"run": kit.journal.run.id, "task": self.task.key, "phase": self.phase}
        return Job(
            token=token,
            prompt=self.prompt,
            workspace=kit.workspace.root,
            mode=self.mode,
            model=kit.policy.model,
            session=self.session,
            base=self.base,
            limits=kit.policy.limits,
            labels={**labels, "attempt": str(self.attempt)},
        )


async def launched(kit: Kit, launch: Launch, conclude: Conclude) -> StepResult:
    """Launch the agent, or return what the journal knows of this launch."""
    used = ""

    async def work(token: str) -> StepResult:
        nonlocal used
        used = token
        text = launch.prompt.text
        await kit.emit(EventType.PROMPT, launch.key, digest=launch.prompt.digest, text=text, length=len(text))
        outcome = await _outcome(kit, launch.job(kit, token), launch.key)
        concluded = await conclude(outcome)
        await kit.emit(EventType.VERDICT, launch.key, task=launch.task.key, **asdict(concluded.verdict))
        return _result(outcome, concluded)

    state = kit.journal.state(launch.key)
    if state is None:
        _refuse_over_budget(kit, launch.task)
        kit.spent.launches += 1
    facts = StepFacts(launch.task.key, launch.phase, launch.attempt, kit.agent.name, kit.policy.model)
    result = await kit.journal.step(launch.key, work, facts=facts)
    if state in (None, StepState.STARTED):
        kit.spent.add_usage(result.output)
        kit.agent.forget(used)
    return result


def _refuse_over_budget(kit: Kit, task: Task) -> None:
    """Check every cap before money is spent."""
    reason = kit.policy.budget.exceeded(kit.spent.launches, kit.spent.usage)
    if reason:
        raise NeedsHuman(
            f"Task {task.key} was not started: {reason}.",
            kept="Everything done so far is kept.",
            hint=f"Raise the limit and go on with: segue resume {kit.journal.run.id}",
        )


async def _outcome(kit: Kit, job: Job, key: str) -> Outcome:
    """Run the agent, pass its events on, and return how it ended."""
    outcome: Outcome | None = None
    async with aclosing(kit.agent.run(job)) as events:
        async for event in events:
            await kit.journal.emit(event, key)
            outcome = event.outcome or outcome
    assert outcome is not None, f"agent {kit.agent.name} ended without an outcome"
    return outcome


def _result(outcome: Outcome, concluded: Conclusion) -> StepResult:
    failure = concluded.failure
    output = {
        "verdict": asdict(concluded.verdict),
        "failure": asdict(failure) if failure else None,
        **concluded.evidence,
        "exit_code": outcome.exit_code,
        "session": outcome.session,
        "model": outcome.model,
        "usage": asdict(outcome.usage) if outcome.usage else None,
        "duration": round(outcome.duration, 3),
        "text": outcome.text[-_KEPT_TEXT:],
    }
    return StepResult(failure is None, output)
