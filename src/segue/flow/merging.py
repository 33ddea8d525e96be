"""Merge: bring the work of a task onto the branch of the run; where it does not fit, begin it again there."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from segue.domain.events import NoticeGiven, TaskCollided, TaskMerged
from segue.domain.results import MergeOutput, SnapshotOutput, StepFacts, StepResult, WorkNote
from segue.domain.task import Task
from segue.domain.workspace import Collision, Snapshot
from segue.flow.context import Lane, RunContext
from segue.flow.phase import MERGE
from segue.flow.phases.check import check_tree
from segue.flow.state import Start, TaskState

_AGAIN = 2
"""How often a task is begun again on what it did not fit; once more an agent resolves what collides."""


async def merge_task(
    context: RunContext, lane: Lane, state: TaskState, *, as_is: bool = False
) -> MergeOutput:
    """Merge the work of a task, in its turn; it is checked together with what others have done meanwhile.

    `as_is`: not where a person has decided about it.
    """
    number = state.count(MERGE.name)
    key = f"{state.folder}/{MERGE.name}/{number}"
    known = context.journal.recorded(key, MergeOutput)
    if known is not None:
        return known.output

    async def work(_token: str) -> StepResult[MergeOutput]:
        output = await _merge(context, lane, state, key, as_is)
        return StepResult(bool(output.commit), output)

    async def reconcile(_token: str) -> StepResult[MergeOutput] | None:
        if not await lane.branch.contains(state.head):
            return None
        now = await lane.branch.head()
        await context.emit(TaskMerged(state.task.key, now, state.base.head), key)
        return StepResult(True, MergeOutput(commit=now, before=state.base.head))

    facts = StepFacts(state.task.key, MERGE.name, number, build_phase=state.task.build_phase, proves=True)
    async with lane.seat.turn(state.last.files):
        step = await context.journal.step(key, MergeOutput, work, reconcile, facts)
        return step.output


async def begin_again(context: RunContext, lane: Lane, state: TaskState, found: MergeOutput) -> bool:
    """Prepare the lane for another round of a task that collided; False when a person must decide."""
    resolves = state.start.round == _AGAIN + 1 and bool(found.files) and not context.cloud
    if state.start.round > _AGAIN and not resolves:
        await _report(context, state, found, "human")
        return False
    collision = await _describe(context, state, found)
    await lane.seat.take()

    async def work(_token: str) -> StepResult[SnapshotOutput]:
        seen = await _report(context, state, found, "resolve" if resolves else "again")
        await lane.tree.keep(f"{state.task.key}-{state.start.round}")
        now = await lane.tree.start(found.before)
        if resolves:
            await lane.tree.lay((await lane.branch.merge(found.before, state.head)).marked)
        return StepResult(True, SnapshotOutput(now.head, now.branch, now.dirty, lane.number, seen))

    key = f"{state.folder}/base/{state.start.round + 1}"
    step = await context.journal.step(key, SnapshotOutput, work, facts=StepFacts(state.task.key, "base"))
    base = step.output
    now = Snapshot(base.head, base.branch, base.dirty)
    state.begin_again(Start(now, state.start.round + 1, base.seen, collision, merges=resolves))
    return True


async def _merge(context: RunContext, lane: Lane, state: TaskState, key: str, as_is: bool) -> MergeOutput:
    """Merge onto whatever the branch is at; somebody else may move it meanwhile."""
    branch = lane.branch
    while True:
        before, new = await branch.head(), state.head
        await _name_strangers(context, lane, before)
        if new == state.base.head:  # there is nothing to merge
            return MergeOutput(commit=before, before=before)
        if before != state.base.head:
            merged = await branch.merge(before, state.head)
            if not merged.tree:
                reason = f"both changed {', '.join(merged.conflicts[:5]) or merged.said}"
                return _collision(context, state, before, reason, merged.conflicts)
            together = replace(context, checking=lane.checking)
            complaint = "" if as_is else await check_tree(together, state, before, merged.tree, key)
            if complaint:
                return _collision(context, state, before, f"together they fail: {complaint}")
            new = await branch.join(before, state.head, merged.tree, _message(context, state.task))
        if await branch.advance(before, new):
            lane.seats.head = new
            await context.emit(TaskMerged(state.task.key, new, before), key)
            return MergeOutput(commit=new, before=before)


async def _name_strangers(context: RunContext, lane: Lane, now: str) -> None:
    """Say so when somebody else has moved the branch: a person, or an agent that nothing keeps from it."""
    before, lane.seats.head = lane.seats.head, now
    if before and before != now:
        said = f"Somebody else has moved branch {lane.branch.branch} from {before[:10]} to {now[:10]}"
        await context.emit(NoticeGiven(f"{said}: what is new there is part of the result."))


def _message(context: RunContext, task: Task) -> str:
    return f"Merge task {task.key}: {task.title}\n\nSegue-Run: {context.journal.run.id}\n"


def _collision(
    context: RunContext, state: TaskState, before: str, reason: str, files: tuple[str, ...] = ()
) -> MergeOutput:
    """Name the tasks that were merged since this one began; of these, those that changed the same files."""
    view = context.view
    began = view.tasks[state.task.key].started or 0
    since = [key for key, task in view.tasks.items() if task.state == "done" and (task.ended or 0) >= began]
    near = [key for key in since if set(files) & set(context.earlier.get(key, WorkNote()).files)]
    return MergeOutput(before=before, files=files, tasks=tuple(near or since), reason=reason)


async def _report(
    context: RunContext, state: TaskState, found: MergeOutput, then: Literal["again", "resolve", "human"]
) -> int:
    """Say what collides and what follows from it; return when that was."""
    event = TaskCollided(state.task.key, found.tasks, found.files, found.reason, then)
    return (await context.journal.emit(event)).ts


async def _describe(context: RunContext, state: TaskState, found: MergeOutput) -> Collision:
    """Return what the agent must know: whose work came first, what collides, and what it had done itself."""
    tasks = context.view.tasks
    others = {key: context.redact(tasks[key].title) for key in found.tasks if key in tasks}
    diff = context.redact(await context.workspace.diff(state.base.head, state.head))
    return Collision(others, found.files, context.redact(found.reason), diff)
