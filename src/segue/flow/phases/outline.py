"""Outline and replan: an agent plans the steps of a goal, and plans the rest again when it no longer fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.amounts import list_some
from segue.domain.errors import AtPlan, NeedsHuman
from segue.domain.events import PLAN_GATE, GatePassed, GateReached, NoticeGiven, PlanRevised
from segue.domain.job import Mode, Prompt, Role
from segue.domain.outcome import Failure, FailureKind, Outcome
from segue.domain.plan import MalformedPlan, read_plan, revise
from segue.domain.results import LaunchInput, LaunchOutput, Nothing, StepFacts, StepResult
from segue.domain.task import Task, TaskStatus, without_secrets
from segue.domain.workspace import Snapshot
from segue.flow.agents import Series
from segue.flow.context import Building, RunContext
from segue.flow.earlier import left_behind
from segue.flow.evidence import tree_before, undo_edits, verdict_after
from segue.flow.launch import Attempts, LaunchRequest
from segue.flow.phase import OUTLINE, REPLAN, Phase
from segue.flow.state import PhaseEnd, TaskState
from segue.prompts.outline import outline_prompt, replan_prompt

_MOST_LEFT = 10
_END = "run/end"
"""Recorded when no plan could be made."""


async def outline(context: RunContext, building: Building) -> None:
    """Let an agent plan the steps, once, and a person approve them where the settings ask for that.

    Raises NeedsHuman when there is no plan, and AtPlan until it is approved.
    """
    if not building.outline.is_planned():
        await _plan(context, building)
    if PLAN_GATE not in context.policy.gates or context.journal.steps("task/"):
        return
    if context.view.gate == PLAN_GATE and context.comments(PLAN_GATE):
        await _plan(context, building, again=True)
    elif PLAN_GATE in context.view.passed:
        return
    elif context.view.gate == PLAN_GATE and context.resumed_by_person:
        await context.emit(GatePassed(PLAN_GATE))
        return
    await _stop_for_approval(context, building)


async def _stop_for_approval(context: RunContext, building: Building) -> None:
    steps, run = len(building.outline.tasks().tasks), context.journal.run.id
    text = f"the plan has {steps} step{'' if steps == 1 else 's'}"
    await context.emit(GateReached(PLAN_GATE, text))
    raise AtPlan(
        f"The run waits for you to approve the plan: {text}.",
        kept="The plan is stored; nothing was built yet.",
        hint=f"Look: segue status {run}   Approve: segue resume {run}   "
        f'Reject: segue task say plan "WHAT SHOULD BE DIFFERENT" --run {run}, then resume',
    )


async def _plan(context: RunContext, building: Building, *, again: bool = False) -> None:
    """Ask for a plan; with `again`, for another one than the person was shown."""
    if not again and (context.journal.state(_END) is not None or context.journal.steps("task/")):
        # It could not be planned before, or somebody has removed the plan: everything starts again.
        for prefix in ("run/", "task/"):
            await context.journal.redo(prefix)
    goal = context.redact(building.outline.goal)
    draft, words = (building.outline.tasks().tasks, context.comments(PLAN_GATE)) if again else ((), ())

    def ask(complaint: str | None) -> Prompt:
        return outline_prompt(goal, complaint, draft=draft, comments=words)

    question = _Question("", OUTLINE, {}, ask)
    counts = {OUTLINE.name: _last_number(context) if again else 0}
    result = await _ask(context, building, question, counts)
    if not result.ok:
        if not again:
            await context.journal.record(_END, StepResult(False, Nothing()), StepFacts(phase="end"))
        run = context.journal.run.id
        raise NeedsHuman(
            f"No {'other ' if again else ''}plan could be made: {result.output.verdict.reason}",
            kept="The agent's answer is stored; nothing was built.",
            hint=f"Look: segue logs {run}   Try again: segue resume {run}",
        )
    reason = f"rejected: {' '.join(words)}" if again else "the first plan"
    await _revise(context, building, "", counts[OUTLINE.name], result.output.steps, reason)


def _last_number(context: RunContext) -> int:
    """Return the number of the last attempt before the person was shown a plan; after a kill the same one."""
    shown = [step for step in context.journal.steps("run/outline/") if step.started <= context.view.gate_ts]
    return max((step.attempt for step in shown), default=0)


async def checkpoint(context: RunContext, state: TaskState) -> PhaseEnd:
    """Reconsider the rest of the plan where the work went another way; the step itself has passed."""
    building = context.building
    if building is None or building.replan == "never" or not _has_rest(context, state.task):
        return PhaseEnd(True)
    caveats = state.verdict.caveats if state.verdict else ()
    if building.replan == "caveats" and not caveats:
        return PhaseEnd(True)
    if not may_replan(context, building, state):
        text = f"Replan limit ({building.replans}) reached: the plan stays as it is."
        await context.emit(NoticeGiven(text, task=state.task.key))
        return PhaseEnd(True)
    reason = "\n".join(caveats) or "The step is done."
    result = await replan(context, building, state, reason, done=True)
    if not result.ok:
        text = f"The plan stays as it is: {result.output.verdict.reason}"
        await context.emit(NoticeGiven(text, task=state.task.key))
    return PhaseEnd(True)


async def replan(
    context: RunContext, building: Building, state: TaskState, reason: str, *, done: bool
) -> StepResult[LaunchOutput]:
    """Let an agent reconsider the steps that remain; with `done`, the task itself stays as it is."""
    steps, key = building.outline.tasks().tasks, state.task.key
    at_work = {one.key for one in context.view.tasks.values() if one.state in ("running", "parked")} - {key}
    fixed = {*at_work, key} if done else at_work
    rest = [step for step in steps if step.status is TaskStatus.PENDING and step.key not in fixed]
    ended = [step for step in steps if step not in rest]
    finished = [step for step in ended if step.status is not TaskStatus.SKIPPED and step.key not in at_work]
    undone = [context.redact(words) for step in steps if (words := _describe_undone(context, step, key))]
    goal = context.redact(building.outline.goal)

    def ask(complaint: str | None) -> Prompt:
        return replan_prompt(goal, finished, undone, rest, context.redact(reason), complaint)

    question = _Question(key, REPLAN, {step.key: step for step in rest}, ask, state.now)
    result = await _ask(context, building, question, state.launched)
    if result.ok:
        kept = [step for step in ended if step.key == key or step.key in at_work]
        await _revise(
            context, building, key, state.launched[REPLAN.name], (*kept, *result.output.steps), reason
        )
    return result


def _describe_undone(context: RunContext, step: Task, current: str) -> str:
    """Return what became of a step that was skipped, failed or is under way; empty for all others."""
    known = context.view.tasks.get(step.key)
    states = ("skipped", "needs_human", "running", "parked")
    if known is None or known.state not in states or step.key == current:
        return ""
    state = {"needs_human": "failed", "parked": "running"}.get(known.state, known.state)
    files = left_behind(context, step.key)
    left = f" It left, unverified: {list_some(files, _MOST_LEFT)}." if files else ""
    return f"{step.title} ({step.build_phase}): {state}. {known.reason}{left}"


def may_replan(context: RunContext, building: Building, state: TaskState) -> bool:
    """Return whether the plan may be reconsidered once more; what was begun is finished."""
    key = f"{state.folder}/{REPLAN.name}/{state.next_number(REPLAN.name)}"
    return context.journal.state(key) is not None or context.view.phases[REPLAN.name] < building.replans


def _has_rest(context: RunContext, task: Task) -> bool:
    steps = context.source.tasks().tasks
    return any(step.status is TaskStatus.PENDING and step.key != task.key for step in steps)


class _Question(Struct, frozen=True):
    """What an agent is asked to plan, and the steps it may keep."""

    task: str
    phase: Phase
    pending: Mapping[str, Task]
    ask: Callable[[str | None], Prompt]
    start: Snapshot | None = None

    @property
    def folder(self) -> str:
        return f"task/{self.task}" if self.task else "run"


async def _ask(
    context: RunContext, building: Building, question: _Question, counts: dict[str, int]
) -> StepResult[LaunchOutput]:
    """Ask until the plan can be read; a malformed one is asked for once more."""
    series = Series(
        chain=context.agents[Role.PLAN],
        task=question.task,
        phase=question.phase.name,
        folder=question.folder,
        attempts=max(2, context.launcher.attempts),
    )
    attempts = Attempts(context.launcher, series, counts)
    async for attempt in attempts:
        tree = await tree_before(context, attempt.key, question.start)
        complaint = context.redact(attempt.feedback) if attempt.feedback else None
        request = LaunchRequest(
            question.ask(complaint),
            Mode.PLAN,
            context.workspace.root,
            tree.head,
            before=LaunchInput(tree=tree),
        )
        async with attempt.launch(request) as outcome:
            edited = await undo_edits(context, question.task, tree, outcome)
            attempt.output = edited or _read(context, building, question, outcome)
    return attempts.result


def _read(context: RunContext, building: Building, question: _Question, outcome: Outcome) -> LaunchOutput:
    failure = outcome.failure
    steps: tuple[Task, ...] = ()
    if failure is None:
        try:
            read = read_plan(outcome.text, question.pending, building.outline.last_number())
            steps = tuple(without_secrets(step, context.redact) for step in read)
        except MalformedPlan as problem:
            words = context.redact(str(problem))
            failure = Failure(FailureKind.NO_RESULT, f"The plan cannot be used: {words}")
    return LaunchOutput(verdict=verdict_after(failure), failure=failure, steps=steps)


async def _revise(
    context: RunContext, building: Building, task: str, number: int, steps: Sequence[Task], reason: str
) -> None:
    """Report once what the plan was and what it is, then store it: doing that again does no harm."""
    old = building.outline.tasks().tasks
    new = revise(old, steps)
    folder = f"task/{task}" if task else "run"

    async def work(_token: str) -> StepResult[Nothing]:
        if new != old:
            titles = {step.key: step.title for step in new}
            await context.journal.respec(replace(context.journal.run.spec, titles=titles))
            await context.emit(PlanRevised(task, context.redact(reason), titles, old, new))
        return StepResult(True, Nothing())

    facts = StepFacts(task or None, "revise", number)
    await context.journal.step(f"{folder}/revise/{number}", Nothing, work, facts=facts)
    building.outline.revise(steps, context.journal.run.id)
