"""Kill git at any durable system call of a merge: it is repeated, and the work is merged exactly once."""

from __future__ import annotations

import os
from asyncio import run
from contextlib import suppress
from pathlib import Path

import pytest

from segue.domain.errors import WorkspaceError
from segue.system.git.integration import Integration
from segue.system.git.repository import Repository
from tests.crash.points import SEED, compiler, count_calls, kill_gits
from tests.system.test_git import git, repo
from tests.system.test_merging import RUN, commit

__all__ = ["repo"]
pytestmark = pytest.mark.skipif(compiler() is None, reason="no C compiler is installed")
STEP = 9
"""Every how many calls git is killed; SEGUE_CRASH_SEED chooses the first."""


async def integrate(repo: Path, tree: Path, theirs: str) -> None:
    """Merge as a run does that was killed before: what has happened is found, the rest is done."""
    own = Integration(await Repository.open(repo), RUN, since=1.0)
    await own.repo.recover(1.0)
    if not await own.contains(theirs):
        head = await own.head()
        merged = await own.merge(head, theirs)
        assert await own.advance(head, await own.join(head, theirs, merged.tree, "Merge\n"))
    await own.sync(await Repository.open(tree))


def test_a_merge_survives_a_kill_at_any_call(
    repo: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path_factory.mktemp("own") / "tree"
    page = tmp_path_factory.mktemp("page") / "page"
    start = git(repo, "rev-parse", "HEAD")
    ours = commit(repo, start, {"a": b"1\n"})
    theirs = commit(repo, start, {"b": b"2\n" * 100, "file": None, "d/c": b"3\n"})
    git(repo, "worktree", "add", "--quiet", "--detach", str(tree), ours)
    at = calls = 0  # the first trial is not killed; it tells how many calls there are
    while at <= calls:
        git(repo, "update-ref", f"refs/heads/{RUN}", ours)
        git(tree, "checkout", "--quiet", "--detach", ours)
        with monkeypatch.context() as patch, suppress(WorkspaceError):
            for name, value in kill_gits(page, at, Path(os.path.commonpath([repo, tree]))).items():
                patch.setenv(name, value)
            run(integrate(repo, tree, theirs))
        calls = calls or count_calls(page)
        run(integrate(repo, tree, theirs))
        assert git(repo, "rev-list", "--merges", "--count", f"{start}..{RUN}") == "1", at
        assert git(tree, "rev-parse", "HEAD") == git(repo, "rev-parse", RUN)
        assert git(tree, "status", "--porcelain") == "", at
        assert not list((repo / ".git").rglob("*.lock")), at
        at += STEP if at else 1 + SEED % STEP
    git(repo, "fsck", "--strict")
    assert calls > 20, "git's calls were counted"
