"""Whether the work tree is on the branch that a task needs: nobody is launched before it is.

Somebody may have switched, rebased or deleted branches since it began, or since the task before it.
"""

from __future__ import annotations

from segue.domain.errors import Unfinished
from segue.domain.results import SnapshotOutput
from segue.domain.run import Step, StepState
from segue.domain.workspace import Snapshot
from segue.flow.context import RunContext
from segue.system.git.folders import find_place
from segue.system.git.moves import way_back


async def check_branch(context: RunContext, task: str, now: Snapshot) -> None:
    """Raise Unfinished if the task began on another branch, or if this one lacks what was done before it."""
    if context.cloud:
        return
    own = context.journal.recorded(f"task/{task}/base", SnapshotOutput)
    if own is not None:
        if own.output.branch != now.branch:
            raise _refuse(context, task, own.output.branch, own.output.head, now, f"Task {task} began on")
        return
    last = context.view.branch
    if not last or last == now.branch:
        return
    lost = await _find_lost(context)
    if lost is not None:
        raise _refuse(context, task, last, lost.output["commit"], now, f"What task {lost.task} did is on")


async def _find_lost(context: RunContext) -> Step | None:
    """Return the last commit of this run, if HEAD contains neither it nor what a rebase made of it."""
    done = (StepState.DONE, "commit")
    made = [step for step in context.journal.steps("task/") if (step.state, step.phase) == done]
    last = next((step for step in reversed(made) if step.output.get("commit")), None)
    if last is None or await context.workspace.find_commit("", last.token) is not None:
        return None
    return last


def _refuse(context: RunContext, task: str, branch: str, head: str, now: Snapshot, what: str) -> Unfinished:
    there, here = _name(branch, head), _name(now.branch, now.head)
    place = find_place(context.workspace.root)
    assert place is not None
    return Unfinished(
        f"{what} {there}, and {here} is checked out now.",
        reason=f"{what} {there}, and {here} is checked out",
        kept=f"No agent was launched for task {task}. Commits and files are as they were.",
        hint=f"{way_back(place, branch, head)}, then: segue resume",
    )


def _name(branch: str, head: str) -> str:
    return f"branch {branch}" if branch else f"commit {head[:10]}"
