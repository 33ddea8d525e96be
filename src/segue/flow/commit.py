"""Commits with trailers, made once: after a phase or at the end of a task."""

from __future__ import annotations

from segue.domain.errors import Unfinished, WorkspaceError
from segue.domain.events import Committed
from segue.domain.results import CommitOutput, StepResult
from segue.domain.workspace import Snapshot
from segue.flow.commit_hooks import commit_message, pass_hooks
from segue.flow.context import RunContext
from segue.flow.state import PhaseEnd, TaskState
from segue.ports import StepFacts


async def commit_phase(context: RunContext, state: TaskState, label: str) -> PhaseEnd:
    """Commit what a phase changed, where the policy or the reviewer wants that."""
    if context.policy.commit == "phase" or context.needs_commits:
        return await _commit(context, state, label)
    return PhaseEnd(True)


async def commit_task(context: RunContext, state: TaskState) -> PhaseEnd:
    """Commit whatever the task's phases have left uncommitted."""
    if context.policy.commit == "never":
        return PhaseEnd(True)
    return await _commit(context, state, "task")


def is_last_commit(step: str) -> bool:
    """Return whether a step commits what is left at the end of a task, just before the task is marked."""
    return "/commit/task" in step


async def _commit(context: RunContext, state: TaskState, label: str) -> PhaseEnd:
    hooked = await pass_hooks(context, state, label)
    if not hooked.ok:
        return hooked
    key = f"{state.folder}/commit/{label}" + (f"/{state.round}" if state.round > 1 else "")

    async def work(token: str) -> StepResult[CommitOutput]:
        commit = await context.workspace.commit(commit_message(context, state, label, token))
        if commit:
            await context.emit(Committed(state.task.key, commit), key)
        return StepResult(True, CommitOutput(commit), soon=commit is not None)

    async def reconcile(token: str) -> StepResult[CommitOutput] | None:
        found = await context.workspace.find_commit(state.base.head, token)
        return StepResult(True, CommitOutput(found)) if found else None

    facts = StepFacts(state.task.key, "commit")
    try:
        result = await context.journal.step(key, CommitOutput, work, reconcile, facts)
    except WorkspaceError as error:
        raise Unfinished(
            f"Task {state.task.key} needs a human: {error.message}",
            reason=error.message,
            kept="The agent's changes are in the work tree; on resume only the commit is made again.",
            hint=f"Fix what git reports, then: segue resume {context.journal.run.id}",
        ) from error
    if result.output.commit:
        state.commit = result.output.commit
        state.now = Snapshot(state.commit, state.now.branch, "")
    return PhaseEnd(True)
