"""Commits hold everything the agent left, also what it staged itself; without a change there is none."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from segue.domain.errors import WorkspaceError
from segue.system.git.repository import Repository


def git(repo: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=repo, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    git(tmp_path, "config", "user.name", "Test")
    git(tmp_path, "config", "user.email", "test@localhost")
    (tmp_path / "file").write_text("old\n")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message=Start")
    return tmp_path


def commit(repo: Path) -> str | None:
    async def work() -> str | None:
        return await (await Repository.open(repo)).commit("Work\n\nSegue-Task: 1\n")

    return asyncio.run(work())


def test_changed_new_and_deleted_files_are_committed(repo: Path) -> None:
    (repo / "other").write_text("new\n")
    (repo / "file").unlink()
    assert commit(repo) == git(repo, "rev-parse", "HEAD")
    assert git(repo, "ls-tree", "--name-only", "HEAD") == "other"
    assert git(repo, "status", "--porcelain") == ""


def test_what_the_agent_staged_itself_is_committed(repo: Path) -> None:
    (repo / "file").write_text("new\n")
    git(repo, "add", "file")
    assert commit(repo) == git(repo, "rev-parse", "HEAD")
    assert git(repo, "show", "HEAD:file") == "new"


def test_a_commit_whose_git_was_killed_right_after_it_is_found(repo: Path) -> None:
    hook = repo / ".git" / "hooks" / "post-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nkill -9 $PPID\n")
    hook.chmod(0o755)
    (repo / "file").write_text("new\n")
    assert commit(repo) == git(repo, "rev-parse", "HEAD")
    assert git(repo, "show", "HEAD:file") == "new"


def test_without_a_change_there_is_no_commit_and_no_hook_runs(repo: Path) -> None:
    hook = repo / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch ../hook-ran\nexit 1\n")
    hook.chmod(0o755)
    head = git(repo, "rev-parse", "HEAD")
    assert commit(repo) is None
    assert git(repo, "rev-parse", "HEAD") == head
    assert not (repo.parent / "hook-ran").exists()


def test_a_file_that_is_added_back_as_it_was_leaves_nothing_to_commit(repo: Path) -> None:
    git(repo, "rm", "--quiet", "--cached", "file")
    head = git(repo, "rev-parse", "HEAD")
    assert commit(repo) is None
    assert git(repo, "rev-parse", "HEAD") == head


def test_a_hook_that_refuses_the_commit_is_an_error_that_says_so(repo: Path) -> None:
    hook = repo / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho not today >&2\nexit 1\n")
    hook.chmod(0o755)
    (repo / "file").write_text("new\n")
    with pytest.raises(WorkspaceError, match="not today"):
        commit(repo)
