"""Accepts work that was never merged: it is in a lane, and belongs on the branch of its run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.domain.errors import UsageError
from segue.domain.results import SnapshotOutput, read_as
from segue.domain.task import Task
from segue.runtime.app import App
from segue.system.git.lanes import LaneTrees
from segue.system.git.merging import Integration
from segue.system.git.repository import Repository
from segue.system.git.worktree import branch_of

if TYPE_CHECKING:
    from segue.store.journal import Journal


async def accept_lane(
    app: App, journal: Journal, home: Repository, repo: Repository, task: Task, pushed: str | None
) -> tuple[str | None, str | None]:
    """Merge what a task has left in its lane, or a cloud agent has pushed; return its commit and the branch.

    Raises UsageError if it does not fit what others have merged.
    """
    run = journal.run
    branch = Integration(repo, branch_of(run.id), app.loaded.settings.merge_union, run.created / 1000)
    commit, place = pushed, str(home.root)
    if run.spec.worktree is not None:
        trees = LaneTrees(home, app.state_dir.absolute() / "worktrees", run.id, run.created / 1000)
        number = _lane_of(journal, task)
        if not number or not trees.path(number).is_dir():
            return None, None
        lane = await trees.open(number, await branch.head())
        lane.own = home.own
        await lane.commit(f"Task {task.key}: {task.title}\n\nSegue-Run: {run.id}\nSegue-Task: {task.key}\n")
        commit, place = await lane.head(), str(lane.root)
    if commit is not None:
        await _merge(branch, commit, task, place)
    return commit, branch.branch


def _lane_of(journal: Journal, task: Task) -> int:
    """Return the lane in which a task was worked on last; 0 if it never was."""
    steps = journal.steps(f"task/{task.key}/base")
    return read_as(SnapshotOutput, steps[-1].output).lane if steps else 0


async def _merge(branch: Integration, commit: str, task: Task, place: str) -> None:
    objects = branch.repo.objects()
    while not await branch.contains(commit):
        before, new = await branch.head(), commit
        if not await objects.is_ancestor(before, commit):
            merged = await branch.merge(before, commit)
            if not merged.tree:
                names = ", ".join(merged.conflicts[:5]) or merged.said
                raise UsageError(
                    f"The work of task {task.key} does not fit what was merged meanwhile: "
                    f"both changed {names}.",
                    kept=f"It is committed in {place}; the task is still open.",
                    hint=f"Merge it there: git -C {place} merge {branch.branch}   then accept it again",
                )
            new = await branch.join(before, commit, merged.tree, f"Merge task {task.key}: {task.title}\n")
        await branch.advance(before, new)
