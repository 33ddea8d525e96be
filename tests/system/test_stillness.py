"""A work tree in which nothing changed is not shown to git again; every change that git would see is seen."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from segue.domain.workspace import Snapshot
from segue.system.git.folders import common_dir
from segue.system.git.repository import Repository
from segue.system.git.stillness import mark_tree
from tests.system.test_git import git
from tests.templates import copy_template


def _make_repository(folder: Path) -> None:
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "config", "user.name", "Test")
    git(folder, "config", "user.email", "test@localhost")
    (folder / "sub").mkdir()
    for name in ("file", "sub/file", "hidden.log"):
        (folder / name).write_text("old\n")
    (folder / "link").symlink_to("file")
    (folder / ".gitignore").write_text("*.log\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=Start")
    (folder / "sub" / "new").write_text("new\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    copy_template(_make_repository, tmp_path)
    return tmp_path


def _calm(root: Path, own: tuple[str, ...] = ()) -> Repository:
    """Return a repository that git has looked at until the next look can do without it."""
    repo = Repository(root, root / ".git", own)
    while mark_tree(repo.root, repo.git_dir, common_dir(repo.git_dir), own) is None:
        pass  # until its files were not written just now
    for _ in range(3):
        _look(repo)
    return repo


def _look(repo: Repository) -> Snapshot:
    return asyncio.run(repo.snapshot())


def _edit_as_if_untouched(root: Path) -> None:
    """Write other text of the same length, and put the times back."""
    file = root / "file"
    before = file.stat()
    file.write_text("new\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def _relink(root: Path) -> None:
    (root / "link").unlink()
    (root / "link").symlink_to("sub/file")


def _change_a_mode_that_does_not_count(root: Path) -> None:
    git(root, "config", "core.fileMode", "false")
    (root / "file").chmod(0o755)


CHANGES: tuple[Callable[[Path], object], ...] = (
    _edit_as_if_untouched,
    lambda root: (root / "sub" / "file").write_text("longer than it was\n"),
    lambda root: (root / "sub" / "new").write_text("two\n"),
    lambda root: (root / "file").chmod(0o755),
    lambda root: (root / "file").unlink(),
    lambda root: (root / "file").rename(root / "sub" / "moved"),
    lambda root: (root / "other").write_text(""),
    _relink,
    lambda root: (root / ".gitignore").write_text("*.txt\n"),
    lambda root: (root / ".git" / "info" / "exclude").write_text("new\n"),
    lambda root: git(root, "add", "--all"),
    lambda root: git(root, "commit", "--quiet", "--all", "--allow-empty", "--message=More"),
    lambda root: git(root, "update-ref", "HEAD", git(root, "commit-tree", "-m", "X", "HEAD^{tree}")),
    lambda root: git(root, "checkout", "--quiet", "-b", "other"),
    _change_a_mode_that_does_not_count,
    lambda root: git(root, "init", "--quiet", "inside"),
)


def test_git_is_not_asked_while_nothing_changes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = _calm(root)
    seen = _look(repo)
    monkeypatch.setenv("PATH", str(root))
    assert _look(repo) == seen
    assert seen.files == ("sub/new",)


def test_every_change_is_seen(tmp_path: Path) -> None:
    for number, change in enumerate(CHANGES):
        root = tmp_path / str(number)
        root.mkdir()
        copy_template(_make_repository, root)
        repo = _calm(root)
        before = _look(repo)
        change(root)
        now = _look(Repository(root, root / ".git"))
        assert _look(repo) == now, f"change {number}"
        assert now != before or change is _change_a_mode_that_does_not_count, f"change {number} is one"


def test_segues_own_files_do_not_count(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "segue.db").write_text("1")
    repo = _calm(root, ("segue.db",))
    (root / "segue.db").write_text("2")
    monkeypatch.setenv("PATH", str(root))
    assert "segue.db" not in _look(repo).files


def test_marks_are_not_taken_where_they_would_not_do(tmp_path: Path) -> None:
    root = tmp_path / "root"
    git_dir = root / ".git"
    git_dir.mkdir(parents=True)
    (root / "file").write_text("")
    assert mark_tree(root, git_dir, git_dir, ()) is None, "a file was written just now"
    (root / "file").unlink()
    assert mark_tree(root, git_dir, git_dir, ()) is not None
    (root / "inside" / ".git").mkdir(parents=True)
    assert mark_tree(root, git_dir, git_dir, ()) is None, "a repository inside has a state of its own"
    (root / "inside" / ".git").rmdir()
    for number in range(300):
        (root / "inside" / str(number)).mkdir()
    assert mark_tree(root, git_dir, git_dir, ()) is None, "git is quicker"
