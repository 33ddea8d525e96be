"""Take what a failed task left as it is, because a person counts it as done while the run works."""

from __future__ import annotations

from segue.domain.events import NoticeGiven, TaskMarked
from segue.domain.proof import accept
from segue.domain.results import EndOutput, StepFacts, StepResult, WordsOutput
from segue.domain.task import Completion, Task, TaskKind, TaskStatus
from segue.flow.begin import start, start_again
from segue.flow.commit import commit_as_is
from segue.flow.context import RunContext
from segue.flow.earlier import find_left, remember
from segue.flow.merging import merge_task
from segue.flow.state import LastLaunch
from segue.flow.words import obey, take_late


async def accept_task(context: RunContext, task: Task, said: WordsOutput, end: str) -> EndOutput:
    """Take what a failed task left as it is, because a person counts it as done, unless it does not fit."""
    journal, known = context.journal, context.view.tasks[task.key]
    commit, branch, misfit = await _take_as_is(context, task, end)
    if misfit:
        text = f"Task {task.key} cannot be accepted as it is: {misfit}. It is still open."
        await context.emit(NoticeGiven(text, task=task.key))
        ending = EndOutput(reason=known.reason or "", attempts=known.attempts)
    else:
        digest, proof = context.source.fingerprint(task), accept(known.measured, said.by)
        seq = await context.emit(TaskMarked(task.key, True, said.by, said.accept, digest=digest), end)
        completion = Completion(TaskStatus.DONE, journal.run.id, seq, commit=commit, branch=branch)
        context.source.mark(task, completion)
        ending = EndOutput(done=True, reason=said.accept, commit=commit, branch=branch, proof=proof)
    await obey(context, task.key)
    await journal.record(end, StepResult(ending.done, ending), StepFacts(task.key, "end"))
    if ending.done:
        remember(context, task.key)
        await take_late(context, (task.key,))
    return ending


async def _take_as_is(context: RunContext, task: Task, end: str) -> tuple[str | None, str | None, str]:
    """Commit and merge what a failed task left; return the commit and its branch, or why it does not fit."""
    if context.cloud or task.kind is TaskKind.HUMAN:
        left = find_left(context.journal.steps(f"task/{task.key}/"))
        await context.journal.redo(end)
        return (left.head or None, left.branch, "") if left is not None else (None, None, "")
    await start_again(context, task, end)
    state = await start(context, task, 0, LastLaunch())
    state.now = await context.workspace.snapshot()
    if ref := context.view.tasks[task.key].kept:
        return None, None, f"what it left does not fit what was done since; it is kept as {ref}"
    await commit_as_is(context, state)
    if context.lane is not None:
        found = await merge_task(context, context.lane, state, as_is=True)
        if not found.commit:
            return None, None, f"its work does not fit what was merged meanwhile: {found.reason}"
    commit = state.head if state.head != state.base.head else None
    return commit, context.lane.branch.branch if context.lane is not None else state.now.branch, ""
