"""What a failed task left in the work tree: put aside before another task begins, and brought back later.

Each part is a step of the journal: `task/3/aside/1` keeps the work under a ref, `task/3/clear/1` puts the
work tree back to where the task began, `task/3/back/1` lays the work there again.
"""

from __future__ import annotations

from segue.domain.amounts import list_some
from segue.domain.events import NoticeGiven, WorkKept
from segue.domain.results import (
    AsideOutput,
    BackOutput,
    CommitOutput,
    EndOutput,
    LaunchOutput,
    Nothing,
    SnapshotOutput,
    StepFacts,
    StepResult,
    read_as,
)
from segue.domain.run import Step, StepState
from segue.domain.workspace import Snapshot
from segue.flow.context import RunContext
from segue.flow.phase import PHASES
from segue.system.git.aside import WorkAside

ASIDE, CLEAR, BACK = "aside", "clear", "back"
STEPS = frozenset((ASIDE, CLEAR, BACK))
"""Steps that a task keeps when it is tried again."""


async def make_room(context: RunContext, key: str, *, begins: bool = False) -> str:
    """Put aside what another task left that failed, before this one begins; return why it cannot be.

    Where a session `begins` with a clean work tree, a person has seen to what was left: commits are theirs.
    """
    steps, aside = context.journal.steps("task/"), context.aside
    last = steps[-1] if steps else None
    if last is None or last.task is None or last.task == key or aside is None or context.lane is not None:
        return ""
    base = context.journal.recorded(f"task/{last.task}/base", SnapshotOutput)
    if base is None or not _is_left(last):
        return ""
    start = read_base(base.output)
    own = context.journal.steps(f"task/{last.task}/")
    number = _next_number(own)
    if context.journal.state(f"task/{last.task}/{ASIDE}/{number}") is None:
        refused = await aside.why_not(start, _find_heads(own))
        if refused and begins and not (await context.workspace.snapshot()).dirty:
            return ""
        if refused:
            return f"what task {last.task} left cannot be put aside: {refused}"
    await _put_aside(context, aside, last.task, start, number)
    return ""


def _is_left(last: Step) -> bool:
    """Return whether what a failed task left is still in the work tree: nothing has happened since."""
    if last.phase == "end":
        return last.state is StepState.FAILED and not read_as(EndOutput, last.output).replanned
    return last.phase == ASIDE or (last.phase == CLEAR and last.state is StepState.STARTED)


async def _put_aside(context: RunContext, aside: WorkAside, task: str, start: Snapshot, number: int) -> str:
    """Keep what a task left and clear the work tree, as far as that is not done; return the ref."""
    key = f"task/{task}/{ASIDE}/{number}"

    async def keep(_token: str) -> StepResult[AsideOutput]:
        kept = await aside.keep(start, task)
        if kept.ref:
            await context.emit(WorkKept(task, kept.ref, kept.files), key)
        for said in kept.moved:
            await context.emit(NoticeGiven(said, task=task), key)
        return StepResult(True, AsideOutput(kept.ref, kept.files))

    facts = StepFacts(task, ASIDE, number)
    found = (await context.journal.step(key, AsideOutput, keep, facts=facts)).output

    async def clear(_token: str) -> StepResult[Nothing]:
        await aside.clear(start, task, found.ref)
        return StepResult(True, Nothing())

    facts = StepFacts(task, CLEAR, number)
    await context.journal.step(f"task/{task}/{CLEAR}/{number}", Nothing, clear, facts=facts)
    return found.ref


async def bring_back(context: RunContext, task: str) -> tuple[str, ...]:
    """Put into the work tree what an earlier attempt at the task left; return the files that do not fit."""
    aside, journal = context.aside, context.journal
    number = _next_number(journal.steps(f"task/{task}/"))
    base = journal.recorded(f"task/{task}/base", SnapshotOutput)
    if aside is None or base is None or journal.state(f"task/{task}/{ASIDE}/{number}") is None:
        return ()
    key, start = f"task/{task}/{BACK}/{number}", read_base(base.output)
    # A kill may have come in between; then nobody else has begun, and the base is still the same.
    ref = await _put_aside(context, aside, task, start, number)

    async def work(_token: str) -> StepResult[BackOutput]:
        misfits = await aside.bring_back(start, task, ref) if ref else ()
        if misfits:
            text = (
                f"What task {task} left before does not fit what was done since ({list_some(misfits, 5)}). "
            )
            await context.emit(NoticeGiven(f"{text}It is kept as {ref}.", task=task), key)
        elif ref:
            await context.emit(WorkKept(task), key)
        return StepResult(True, BackOutput(misfits))

    found = await journal.step(key, BackOutput, work, facts=StepFacts(task, BACK, number))
    return found.output.misfits


def read_base(base: SnapshotOutput) -> Snapshot:
    """Return what a task began with."""
    return Snapshot(base.head, base.branch, base.dirty, links=base.links, heavy=base.heavy, tree=base.tree)


def _next_number(steps: list[Step]) -> int:
    """Return the number of what is aside now, or would be next: one more than what was brought back."""
    return 1 + sum(step.phase == BACK and step.state is StepState.DONE for step in steps)


def _find_heads(steps: list[Step]) -> set[str]:
    """Return the commits that launches of a task left, and those that Segue made for it."""
    editing = {phase.name for phase in PHASES.values() if phase.edits}
    left = {
        read_as(LaunchOutput, step.output).head for step in steps if step.phase in editing and step.output
    }
    made = {read_as(CommitOutput, step.output).commit for step in steps if step.phase == "commit"}
    return {head for head in (*left, *made) if head}
