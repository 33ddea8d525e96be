"""Whether the work tree is on the branch that a task needs: nobody is launched before it is.

Somebody may have switched, rebased or deleted branches since it began, or since the task before it.
"""

from __future__ import annotations

from segue.domain.errors import Unfinished
from segue.domain.results import CommitOutput, SnapshotOutput, read_as
from segue.domain.run import StepState
from segue.domain.workspace import Snapshot
from segue.flow.context import RunContext
from segue.system.git.folders import GitPlace, find_place
from segue.system.git.moves import way_back
from segue.system.git.objects import Objects


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
        done, commit = lost
        raise _refuse(context, task, last, commit, now, f"What task {done} did is on")


async def _find_lost(context: RunContext) -> tuple[str, str] | None:
    """Return task and commit of the last work, if HEAD contains neither it nor what a rebase made of it."""
    for step in reversed(context.journal.steps("task/")):
        commit = read_as(CommitOutput, step.output).commit if step.phase == "commit" else None
        if commit and step.state is StepState.DONE:
            is_here = await context.workspace.find_commit("", step.token) is not None
            # What this repository does not have at all, a person has already decided about.
            is_elsewhere = not is_here and await Objects(_place(context).common).has(commit)
            return (step.task or "", commit) if is_elsewhere else None
    return None


def _refuse(context: RunContext, task: str, branch: str, head: str, now: Snapshot, what: str) -> Unfinished:
    there, here = _name(branch, head), _name(now.branch, now.head)
    return Unfinished(
        f"{what} {there}, and {here} is checked out now.",
        reason=f"{what} {there}, and {here} is checked out",
        kept=f"No agent was launched for task {task}. Commits and files are as they were.",
        hint=f"{way_back(_place(context), branch, head)}, then: segue resume",
    )


def _place(context: RunContext) -> GitPlace:
    place = find_place(context.workspace.root)
    assert place is not None
    return place


def _name(branch: str, head: str) -> str:
    return f"branch {branch}" if branch else f"commit {head[:10]}"
