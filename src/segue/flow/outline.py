"""Plans by an agent: the steps of a goal, and later the rest of them anew when they no longer fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace

from segue.domain.errors import NeedsHuman
from segue.domain.event import EventType
from segue.domain.failure import Failure, FailureKind
from segue.domain.job import Mode
from segue.domain.outcome import Outcome
from segue.domain.plan import MalformedPlan, read_plan, step_of
from segue.domain.prompt import Prompt
from segue.domain.run import StepState
from segue.domain.task import Task, TaskStatus
from segue.domain.workspace import Snapshot
from segue.flow.attempts import Try, attempts
from segue.flow.evidence import verdict_of
from segue.flow.kit import Building, Kit
from segue.flow.launch import Conclusion, Launch, launched
from segue.flow.plan import edited_meanwhile
from segue.ports import StepFacts, StepResult
from segue.prompts.outline import outline_prompt, replan_prompt

_NOBODY = Task("", "the plan", "")
"""Stands for the run as a whole: its steps are not those of a task."""


async def outline(kit: Kit, building: Building) -> None:
    """Let an agent plan the steps, once; raises NeedsHuman when it cannot."""
    if building.outline.planned():
        return
    tried = [step.state for step in kit.journal.steps("run/outline/")]
    if tried and tried[-1] is StepState.FAILED:
        await kit.journal.redo("run/outline/")
    now = await kit.workspace.snapshot()
    seen = StepResult(True, {"head": now.head, "branch": now.branch, "dirty": now.dirty})
    before = Snapshot(**(await kit.journal.record("run/base", seen, StepFacts(phase="base"))).output)
    goal = kit.redact(building.outline.goal)

    def ask(complaint: str | None) -> Prompt:
        return outline_prompt(goal, complaint)

    _, result = await _planned(kit, building, _NOBODY, "outline", before, {}, ask)
    if not result.ok:
        raise NeedsHuman(
            f"No plan could be made: {result.output['verdict']['reason']}",
            kept="What the agent said is stored; nothing was built.",
            hint=f"Look: segue logs {kit.journal.run.id}   Try again: segue resume {kit.journal.run.id}",
        )
    await _revise(kit, building, _NOBODY, result, "the first plan")


async def replan(
    kit: Kit, building: Building, task: Task, before: Snapshot, reason: str, *, done: bool, first: int = 1
) -> tuple[int, StepResult]:
    """Let an agent look at the steps that remain; with `done`, the task itself stays as it is."""
    steps = building.outline.tasks().tasks
    rest = [
        step for step in steps if step.status is TaskStatus.PENDING and not (done and step.key == task.key)
    ]
    ended = [step for step in steps if step not in rest]
    goal = kit.redact(building.outline.goal)

    def ask(complaint: str | None) -> Prompt:
        return replan_prompt(goal, ended, rest, kit.redact(reason), complaint)

    pending = {step.key: step for step in rest}
    number, result = await _planned(kit, building, task, "replan", before, pending, ask, first)
    if result.ok:
        await _revise(kit, building, task, result, reason, [step for step in ended if step.key == task.key])
    return number, result


async def _planned(
    kit: Kit,
    building: Building,
    task: Task,
    phase: str,
    before: Snapshot,
    pending: Mapping[str, Task],
    ask: Callable[[str | None], Prompt],
    first: int = 1,
) -> tuple[int, StepResult]:
    """Ask until the plan can be read; a malformed one is asked for once more."""

    async def conclude(outcome: Outcome) -> Conclusion:
        edited = await edited_meanwhile(kit, task, before, outcome)
        if edited is not None:
            return edited
        failure = outcome.failure
        steps: tuple[Task, ...] = ()
        if failure is None:
            try:
                steps = read_plan(outcome.text, pending, building.outline.last_number())
            except MalformedPlan as problem:
                failure = Failure(FailureKind.NO_RESULT, f"The plan cannot be used: {problem}")
        evidence = {"changed": False, "steps": [asdict(step) for step in steps]}
        return Conclusion(verdict_of(failure, changed=False), failure, evidence)

    async def attempt(now: Try) -> StepResult:
        prompt = ask(kit.redact(now.feedback) if now.feedback else None)
        launch = Launch(task, phase, now.number, prompt, Mode.PLAN, before.head, now.player)
        return await launched(kit, launch, conclude)

    return await attempts(kit, task, phase, attempt, first, least=2)


async def _revise(
    kit: Kit, building: Building, task: Task, result: StepResult, reason: str, kept: Sequence[Task] = ()
) -> None:
    """Write the plan down, and say so once; doing it again after a crash does no harm."""
    old = building.outline.tasks().tasks
    steps = [*kept, *(step_of(step) for step in result.output["steps"])]
    building.outline.revise(steps, kit.journal.run.id)
    new = building.outline.tasks().tasks
    if new != old:
        titles = {step.key: step.title for step in new}
        plans = {"old": [asdict(step) for step in old], "new": [asdict(step) for step in new]}
        await kit.journal.respec(replace(kit.journal.run.spec, titles=titles))
        await kit.emit(EventType.PLAN_REVISED, None, task=task.key, reason=reason, titles=titles, **plans)
