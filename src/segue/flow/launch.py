"""One launch of an agent as a journalled step: caps before it, evidence after it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from segue.domain.errors import NeedsHuman
from segue.domain.event import EventType
from segue.domain.failure import Failure
from segue.domain.job import Job, Mode
from segue.domain.outcome import Outcome
from segue.domain.prompt import Prompt
from segue.domain.run import StepState
from segue.domain.task import Task
from segue.domain.verdict import Result, Verdict
from segue.flow.context import Kit, Player
from segue.flow.errors import Witness
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
    player: Player
    session: str | None = None
    """The conversation to go on with, for agents that can."""
    folder: Path | None = None
    """Where the agent stands; the workspace if unset."""
    web: bool = False
    """Whether it may look things up on the web although it may not edit."""
    seen: dict[str, Any] = field(default_factory=dict)
    """What was seen before the launch and is needed after it, also by another process."""

    @property
    def key(self) -> str:
        """The step's name in the journal."""
        return f"{folder_of(self.task)}/{self.phase}/{self.attempt}"

    def job(self, kit: Kit, token: str) -> Job:
        """What the agent is asked."""
        labels = {"run": kit.journal.run.id, "task": self.task.key, "phase": self.phase}
        return Job(
            token=token,
            prompt=self.prompt,
            workspace=self.folder or kit.workspace.root,
            mode=self.mode,
            model=self.player.model,
            session=self.session,
            base=self.base,
            web=self.web,
            limits=kit.policy.limits,
            labels={**labels, "attempt": str(self.attempt)},
        )


def folder_of(task: Task) -> str:
    """Where the steps of a task stand in the journal; without a key, those of the whole run."""
    return f"task/{task.key}" if task.key else "run"


def seen_before(kit: Kit, key: str) -> dict[str, Any]:
    """What was written down when a launch was begun; nothing if it was not."""
    return next((step.input for step in kit.journal.steps(key) if step.key == key), {})


async def recorded(kit: Kit, key: str) -> StepResult | None:
    """What the journal knows of a step that has ended; None when there is still something to do."""
    if kit.journal.state(key) in (None, StepState.STARTED):
        return None

    async def work(_token: str) -> StepResult:
        raise AssertionError(f"{key} has ended before")

    return await kit.journal.step(key, work)


async def launched(kit: Kit, launch: Launch, conclude: Conclude) -> StepResult:
    """Launch the agent, or return what the journal knows of this launch."""
    used = ""

    async def work(token: str) -> StepResult:
        nonlocal used
        used = token
        text = launch.prompt.text
        await kit.emit(EventType.PROMPT, launch.key, digest=launch.prompt.digest, text=text, length=len(text))
        witness = Witness(kit, launch.task, launch.phase, launch.key)
        outcome = await _outcome(kit, launch, token, witness)
        concluded = await conclude(outcome)
        await witness.conclude(outcome, concluded.failure)
        await kit.emit(EventType.VERDICT, launch.key, task=launch.task.key, **asdict(concluded.verdict))
        return _result(launch, outcome, concluded)

    state = kit.journal.state(launch.key)
    if state is None:
        _refuse_over_budget(kit, launch.task)
        kit.spent.launches += 1
        kit.spent.replans += launch.phase == "replan"
    facts = StepFacts(
        launch.task.key or None,
        launch.phase,
        launch.attempt,
        launch.player.agent.name,
        launch.player.model,
        launch.task.build_phase,
        {"prompt": launch.prompt.digest, **launch.seen},
    )
    result = await kit.journal.step(launch.key, work, facts=facts)
    if state in (None, StepState.STARTED):
        kit.spent.add_usage(result.output)
        launch.player.agent.forget(used)
    return result


def _refuse_over_budget(kit: Kit, task: Task) -> None:
    """Check every cap before money is spent."""
    reason = kit.policy.budget.exceeded(kit.spent.launches, kit.spent.usage)
    if reason:
        raise NeedsHuman(
            f"{f'Task {task.key}' if task.key else 'The plan'} was not started: {reason}.",
            kept="Everything done so far is kept.",
            hint=f"Raise the limit and go on with: segue resume {kit.journal.run.id}",
        )


async def _outcome(kit: Kit, launch: Launch, token: str, witness: Witness) -> Outcome:
    """Run the agent, pass its events on, and return how it ended."""
    outcome: Outcome | None = None
    agent = launch.player.agent
    async with aclosing(agent.run(launch.job(kit, token))) as events:
        async for event in events:
            await kit.journal.emit(event, launch.key)
            await witness.see(event)
            outcome = event.outcome or outcome
    assert outcome is not None, f"agent {agent.name} ended without an outcome"
    return outcome


def _result(launch: Launch, outcome: Outcome, concluded: Conclusion) -> StepResult:
    failure = concluded.failure
    output = {
        "verdict": asdict(concluded.verdict),
        "failure": asdict(failure) if failure else None,
        **concluded.evidence,
        "exit_code": outcome.exit_code,
        "agent": launch.player.agent.name,
        "session": outcome.session,
        "model": outcome.model,
        "usage": asdict(outcome.usage) if outcome.usage else None,
        "duration": round(outcome.duration, 3),
        "text": outcome.text[-_KEPT_TEXT:],
    }
    return StepResult(failure is None and concluded.verdict.result is Result.PASS, output)
