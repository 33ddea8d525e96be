"""Plans by an agent: the steps of a goal, and later the rest of them anew when they no longer fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from segue.domain.errors import NeedsHuman
from segue.domain.event import EventType
from segue.domain.failure import Failure, FailureKind
from segue.domain.job import Mode
from segue.domain.outcome import Outcome
from segue.domain.plan import MalformedPlan, read_plan, revised, step_of
from segue.domain.prompt import Prompt
from segue.domain.task import Task, TaskStatus, without_secrets
from segue.domain.workspace import Snapshot
from segue.flow.attempts import Try, attempts
from segue.flow.context import Building, Kit
from segue.flow.evidence import verdict_of
from segue.flow.launch import Conclusion, Launch, folder_of, launched
from segue.flow.phases.plan import as_seen, edited_meanwhile, tree_before
from segue.flow.state import Carried
from segue.ports import StepFacts, StepResult
from segue.prompts.outline import outline_prompt, replan_prompt

_NOBODY = Task("", "the plan", "")
"""Stands for the run as a whole: its steps are not those of a task."""

_END = "run/end"
"""Written down when no plan could be made."""


async def outline(kit: Kit, building: Building) -> None:
    """Let an agent plan the steps, once; raises NeedsHuman when it cannot."""
    if building.outline.planned():
        return
    if kit.journal.state(_END) is not None or kit.journal.steps("task/"):
        # It could not be planned before, or somebody has removed the plan: all begins anew.
        for prefix in ("run/", "task/"):
            await kit.journal.redo(prefix)
    goal = kit.redact(building.outline.goal)

    def ask(complaint: str | None) -> Prompt:
        return outline_prompt(goal, complaint)

    number, result = await _planned(kit, building, _Question(_NOBODY, "outline", {}, ask))
    if not result.ok:
        await kit.journal.record(_END, StepResult(False), StepFacts(phase="end"))
        raise NeedsHuman(
            f"No plan could be made: {result.output['verdict']['reason']}",
            kept="What the agent said is stored; nothing was built.",
            hint=f"Look: segue logs {kit.journal.run.id}   Try again: segue resume {kit.journal.run.id}",
        )
    await _revise(kit, building, _NOBODY, number, result, "the first plan")


async def replan(
    kit: Kit, building: Building, task: Task, carried: Carried, reason: str, *, done: bool
) -> StepResult:
    """Let an agent look at the steps that remain; with `done`, the task itself stays as it is."""
    steps = building.outline.tasks().tasks
    rest = [
        step for step in steps if step.status is TaskStatus.PENDING and not (done and step.key == task.key)
    ]
    ended = [step for step in steps if step not in rest]
    goal = kit.redact(building.outline.goal)

    def ask(complaint: str | None) -> Prompt:
        return replan_prompt(goal, ended, rest, kit.redact(reason), complaint)

    question = _Question(task, "replan", {step.key: step for step in rest}, ask, carried.now)
    number, result = await _planned(kit, building, question, carried.replans + 1)
    carried.launches += number - carried.replans
    carried.replans = number
    if result.ok:
        kept = [step for step in ended if step.key == task.key]
        await _revise(kit, building, task, number, result, reason, kept)
    return result


def may_replan(kit: Kit, building: Building, task: Task, carried: Carried) -> bool:
    """Whether the plan may be looked at once more; what was begun is finished."""
    begun = kit.journal.state(f"task/{task.key}/replan/{carried.replans + 1}") is not None
    return begun or kit.spent.replans < building.replans


@dataclass(frozen=True, slots=True)
class _Question:
    """What an agent is asked to plan, and the steps it may keep."""

    task: Task
    phase: str
    pending: Mapping[str, Task]
    ask: Callable[[str | None], Prompt]
    start: Snapshot | None = None


async def _planned(
    kit: Kit, building: Building, question: _Question, first: int = 1
) -> tuple[int, StepResult]:
    """Ask until the plan can be read; a malformed one is asked for once more."""
    task = question.task

    async def attempt(now: Try) -> StepResult:
        key = f"{folder_of(task)}/{question.phase}/{now.number}"
        tree = await tree_before(kit, key, question.start)

        async def conclude(outcome: Outcome) -> Conclusion:
            edited = await edited_meanwhile(kit, task, tree, outcome)
            return edited or _read(kit, building, question, outcome)

        prompt = question.ask(kit.redact(now.feedback) if now.feedback else None)
        seen = as_seen(tree)
        launch = Launch(task, question.phase, now.number, prompt, Mode.PLAN, tree.head, now.player, seen=seen)
        return await launched(kit, launch, conclude)

    return await attempts(kit, task, question.phase, attempt, first, least=2)


def _read(kit: Kit, building: Building, question: _Question, outcome: Outcome) -> Conclusion:
    failure = outcome.failure
    steps: list[Task] = []
    if failure is None:
        try:
            read = read_plan(outcome.text, question.pending, building.outline.last_number())
            steps = [without_secrets(step, kit.redact) for step in read]
        except MalformedPlan as problem:
            failure = Failure(FailureKind.NO_RESULT, f"The plan cannot be used: {kit.redact(str(problem))}")
    evidence = {"changed": False, "steps": [asdict(step) for step in steps]}
    return Conclusion(verdict_of(failure, changed=False), failure, evidence)


async def _revise(
    kit: Kit,
    building: Building,
    task: Task,
    number: int,
    result: StepResult,
    reason: str,
    kept: Sequence[Task] = (),
) -> None:
    """Say once what the plan was and what it is, then write it down: doing that again does no harm."""
    old = building.outline.tasks().tasks
    steps = [*kept, *(step_of(step) for step in result.output["steps"])]
    new = revised(old, steps)
    key = f"{folder_of(task)}/revise/{number}"

    async def work(_token: str) -> StepResult:
        if new != old:
            titles = {step.key: step.title for step in new}
            plans = {"old": [asdict(step) for step in old], "new": [asdict(step) for step in new]}
            await kit.journal.respec(replace(kit.journal.run.spec, titles=titles))
            told = {"reason": kit.redact(reason), "titles": titles}
            await kit.emit(EventType.PLAN_REVISED, None, task=task.key, **told, **plans)
        return StepResult(True)

    await kit.journal.step(key, work, facts=StepFacts(task.key or None, "revise", number))
    building.outline.revise(steps, kit.journal.run.id)
