"""What a killed git leaves behind is removed, and nothing else: locks, half a work tree, half a merge."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from pathlib import Path

import pytest

from segue.domain.errors import Unfinished
from segue.domain.workspace import Snapshot
from segue.system.git.branches import LocalBranches, RemoteBranches
from segue.system.git.recovery import undo_killed_merge, wait_for_git
from segue.system.git.repository import Repository
from tests.cli.place import until
from tests.system.test_git import git, repo
from tests.system.test_worktree import enter, worktree

__all__ = ["repo"]

LOCKS = (
    "index.lock",
    "HEAD.lock",
    "config.lock",
    "packed-refs.lock",
    "refs/heads/main.lock",
)


def recover(repo: Path, since: float) -> None:
    async def work() -> None:
        await (await Repository.open(repo)).recover(since)

    asyncio.run(work())


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_that_a_killed_git_left_is_removed(repo: Path, name: str) -> None:
    lock = repo / ".git" / name
    lock.touch()
    recover(repo, time.time() - 60)
    assert not lock.exists()


def test_a_lock_from_before_the_run_is_not_ours(repo: Path) -> None:
    lock = repo / ".git" / "index.lock"
    lock.touch()
    os.utime(lock, (time.time() - 3600, time.time() - 3600))
    recover(repo, time.time() - 60)
    assert lock.exists()


def test_a_git_that_works_is_waited_for(repo: Path) -> None:
    """A person's git, or one that outlived a killed Segue: its lock is its own."""
    hook = repo / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch ../started\nuntil test -f ../go; do sleep 0.01; done\n")
    hook.chmod(0o755)
    (repo / "file").write_text("new\n")
    started, go = repo.parent / "started", repo.parent / "go"
    committing = subprocess.Popen(["git", "commit", "--quiet", "--all", "-m", "Mine"], cwd=repo)
    until(started.exists, "the hook runs")
    assert (repo / ".git" / "index.lock").exists()
    assert not asyncio.run(wait_for_git([repo], 0.05))

    async def both() -> None:
        recovering = asyncio.create_task((await Repository.open(repo)).recover(time.time() - 60))
        await asyncio.sleep(0.05)
        assert (repo / ".git" / "index.lock").exists()
        go.touch()
        # Nobody else collects a child of ours.
        await asyncio.to_thread(committing.wait)
        await recovering

    asyncio.run(both())
    assert git(repo, "log", "-1", "--format=%s") == "Mine"
    started.unlink()
    go.unlink()


KILLED_WHILE_MADE = {
    "nothing is written": {},
    "the lock is empty": {"locked": ""},
    "the lock is written": {"locked": "initializing"},
    "one file is empty": {"locked": "initializing", "gitdir": "x", "HEAD": "x", "commondir": ""},
}


@pytest.mark.parametrize("files", KILLED_WHILE_MADE.values(), ids=KILLED_WHILE_MADE)
@pytest.mark.parametrize("branch", [False, True], ids=["no branch", "branch"])
def test_half_a_work_tree_is_made_again(
    repo: Path, files: dict[str, str], branch: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tree = worktree(repo, tmp_path_factory.mktemp("trees"))
    known = repo / ".git" / "worktrees" / tree.folder.name
    known.mkdir(parents=True)
    tree.folder.mkdir()
    (tree.folder / ".git").write_text("gitdir: nowhere")
    for name, text in files.items():
        (known / name).write_text(text)
    if branch:
        git(repo, "branch", tree.branch)
    enter(tree, begun=False)
    assert git(tree.folder, "status", "--porcelain") == ""


def test_a_removal_that_was_killed_is_finished(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    tree = worktree(repo, tmp_path_factory.mktemp("trees"))
    enter(tree, begun=False)
    tree.folder.rename(tree.folder.with_name(f".{tree.folder.name}.removed"))
    enter(tree)
    asyncio.run(tree.remove())
    assert [path.name for path in tree.folder.parent.iterdir() if path.is_dir()] == []
    assert len(git(repo, "worktree", "list").splitlines()) == 1


@pytest.fixture
def merging(repo: Path) -> Path:
    """A repository with a branch that changes, adds and removes files."""
    (repo / "gone").write_text("gone\n")
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "-m", "Before")
    git(repo, "switch", "--quiet", "--create", "work")
    (repo / "file").write_text("the new text\n")
    (repo / "added").write_text("added text\n")
    (repo / "gone").unlink()
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "-m", "Work")
    git(repo, "switch", "--quiet", "main")
    return repo


def undo(repo: Path) -> str:
    async def work() -> None:
        await undo_killed_merge(await Repository.open(repo), "work")

    asyncio.run(work())
    return git(repo, "status", "--porcelain")


@pytest.mark.parametrize("diverged", [False, True])
@pytest.mark.parametrize("text", ["the new text\n", "the n", ""])
def test_half_a_merge_is_taken_back(merging: Path, text: str, diverged: bool) -> None:
    if diverged:
        (merging / "other").write_text("mine\n")
        git(merging, "add", "other")
        git(merging, "commit", "--quiet", "-m", "Mine")
    (merging / "file").write_text(text)
    (merging / "added").write_text("added text\n")
    (merging / "gone").unlink()
    assert undo(merging) == ""
    assert (merging / "file").read_text() == "old\n"
    assert (merging / "gone").exists()
    assert not (merging / "added").exists()


@pytest.mark.parametrize("name", ["file", "added", "other"])
def test_what_a_person_changed_meanwhile_is_not_taken_back(merging: Path, name: str) -> None:
    (merging / "gone").unlink()
    (merging / name).write_text("by hand\n")
    before = git(merging, "status", "--porcelain")
    assert undo(merging) == before
    assert (merging / name).read_text() == "by hand\n"


def begin(repo: Path, key: str) -> str:
    async def work() -> str:
        branches = LocalBranches(await Repository.open(repo), "segue/x")
        return (await branches.begin(key, None)).branch

    return asyncio.run(work())


def test_half_a_switch_to_the_branch_of_a_task_is_repeated(merging: Path) -> None:
    git(merging, "branch", "--move", "work", "segue/x/T1")
    (merging / "file").write_text("the n")
    (merging / "added").write_text("added text\n")
    assert begin(merging, "T1") == "segue/x/T1"
    assert git(merging, "status", "--porcelain") == ""
    assert (merging / "file").read_text() == "the new text\n"


def test_work_that_cannot_be_fetched_now_is_fetched_on_resume(repo: Path, tmp_path: Path) -> None:
    """That is no failure of the agent, which would be launched again for it."""
    hosted = tmp_path / "hosted.git"
    git(repo, "clone", "--quiet", "--bare", str(repo), str(hosted))
    git(repo, "remote", "add", "origin", str(hosted))
    git(repo, "push", "--quiet", "origin", "main:refs/heads/work")

    async def arrive() -> str:
        branches = RemoteBranches(await Repository.open(repo), "origin", tmp_path / "scratch")
        return (await branches.arrive(["work"], Snapshot("", "main", ""))).branch

    hosted.rename(tmp_path / "away")
    with pytest.raises(Unfinished, match="could not be fetched"):
        asyncio.run(arrive())
    (tmp_path / "away").rename(hosted)
    assert asyncio.run(arrive()) == "work"
