"""A work tree is only used when it is the run's own; what a killed git left half made is made again."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.domain.delivery import Delivered
from segue.domain.errors import SegueError, WorkspaceError
from segue.domain.run import Run, RunSpec, RunState
from segue.system.git.repository import Repository
from segue.system.git.worktree import Worktree, unmerged
from segue.system.sweep import belongs, delete, size_of
from tests.system.test_git import git, repo

__all__ = ["repo"]


def worktree(repo: Path, under: Path) -> Worktree:
    spec = RunSpec("planfile", "plan.md", str(repo), "scripted", "execute", worktree=str(under))
    run = Run("20261115-010203-abcd", "key", spec, RunState.RUNNING, None, 0, 0)
    found = Worktree.of(asyncio.run(Repository.open(repo)), run)
    assert found is not None
    return found


def enter(tree: Worktree, begun: bool = True) -> str:
    return asyncio.run(tree.enter(begun))[1]


def test_without_its_git_the_repository_around_it_is_not_taken(repo: Path) -> None:
    tree = worktree(repo, repo / "state")
    enter(tree, begun=False)
    (tree.folder / ".git").unlink()
    found = asyncio.run(tree.opened())
    assert found is not None
    assert found.root == tree.folder
    assert git(tree.folder, "branch", "--show-current") == tree.branch, "it was put back"
    assert (tree.folder / "file").is_file(), "what lies there is kept"


def test_a_missing_branch_is_made_only_for_a_run_that_has_not_begun(
    repo: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tree = worktree(repo, tmp_path_factory.mktemp("own"))
    with pytest.raises(WorkspaceError, match="is missing"):
        enter(tree)
    enter(tree, begun=False)
    assert not asyncio.run(unmerged(tree.home, tree.branch))
    git(tree.folder, "commit", "--quiet", "--allow-empty", "-m", "work")
    assert asyncio.run(unmerged(tree.home, tree.branch))


def finish(tree: Worktree, merge: bool = True, forward: bool = False) -> tuple[str, bool, bool]:
    async def deliver() -> Delivered:
        refused = await tree.merge_into("main", forward) if merge else "that was not asked for"
        return Delivered(words=refused, merged=not refused)

    said = asyncio.run(tree.finish(deliver, lambda: None, keeps=not merge))
    return said.words, said.merged, said.removed


def test_commits_on_another_branch_keep_the_work_tree(
    repo: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tree = worktree(repo, tmp_path_factory.mktemp("own"))
    enter(tree, begun=False)
    git(tree.folder, "switch", "--quiet", "--detach")
    git(tree.folder, "commit", "--quiet", "--allow-empty", "-m", "lost?")
    words, merged, removed = finish(tree)
    assert (merged, removed) == (False, False)
    assert "no branch" in words
    assert tree.folder.is_dir()


def test_the_branch_of_the_user_becomes_only_what_was_checked(
    repo: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tree = worktree(repo, tmp_path_factory.mktemp("own"))
    enter(tree, begun=False)
    git(tree.folder, "commit", "--quiet", "--allow-empty", "-m", "work")
    git(repo, "commit", "--quiet", "--allow-empty", "-m", "meanwhile")
    head = git(repo, "rev-parse", "HEAD")
    words, merged, _ = finish(tree, forward=True)
    assert not merged
    assert "main has commits that the run has not checked its work with" in words
    assert git(repo, "rev-parse", "HEAD") == head
    enter(tree)
    git(tree.folder, "merge", "--quiet", "--no-edit", "main")
    checked = git(tree.folder, "rev-parse", "HEAD")
    git(tree.folder, "switch", "--quiet", "--detach")
    _, merged, removed = finish(tree, forward=True)
    assert (merged, removed) == (True, True)
    assert git(repo, "rev-parse", "main") == checked


def test_ignored_files_of_the_user_are_not_overwritten(
    repo: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (repo / ".gitignore").write_text("secret\n")
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "-m", "ignore")
    (repo / "secret").write_text("mine")
    tree = worktree(repo, tmp_path_factory.mktemp("own"))
    enter(tree, begun=False)
    (tree.folder / "secret").write_text("agent's")
    git(tree.folder, "add", "--force", "secret")
    git(tree.folder, "commit", "--quiet", "-m", "work")
    _, merged, _ = finish(tree)
    assert not merged
    assert (repo / "secret").read_text() == "mine"


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=40).filter(
    lambda name: name not in (".", "..") and len(name.encode()) < 200
)
PARTS = st.one_of(NAMES, st.sampled_from([".", "..", "link", "loop", "inside", "runs", "outside"]))


def furnished(folder: Path) -> tuple[Path, Path]:
    """A folder of ours with links that lead out of it, and a folder of somebody else's."""
    root, outside = folder / "segue", folder / "outside"
    for place in (root / "runs" / "inside", outside / "inside"):
        place.mkdir(parents=True)
        (place / "file").write_text("precious")
    (root / "link").symlink_to(outside)
    (root / "runs" / "link").symlink_to(outside / "inside")
    (root / "runs" / "inside" / "link").symlink_to(outside)
    (root / "runs" / "loop").symlink_to(root / "runs")
    (folder / "seguelike").mkdir()
    return root, outside


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@settings(deadline=None)
@given(parts=st.lists(PARTS, min_size=1, max_size=6), start=st.sampled_from(["root", "outside", "other"]))
def test_nothing_outside_is_ever_deleted(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str], start: str
) -> None:
    folder = tmp_path_factory.mktemp("sweep")
    root, outside = furnished(folder)
    before = everything(outside)
    named = {"root": root, "outside": outside, "other": folder / "seguelike"}[start].joinpath(*parts)
    try:
        delete(root, named)
    except SegueError:
        assert everything(root) == everything(furnished(tmp_path_factory.mktemp("same"))[0])
    assert everything(outside) == before
    assert (outside / "inside" / "file").read_text() == "precious"
    assert root.is_dir()
    assert (folder / "seguelike").is_dir()
    shutil.rmtree(folder)


def test_ours_is_deleted_but_not_what_its_links_point_to(tmp_path: Path) -> None:
    root, outside = furnished(tmp_path)
    ours = root / "runs" / "inside"
    assert belongs(root, ours)
    assert size_of(ours) == len("precious") + len(os.fsencode(outside))
    (ours / "cache").mkdir()
    (ours / "cache" / "kept").write_text("read-only")
    (ours / "cache").chmod(0o500)
    delete(root, ours)
    assert not ours.exists()
    assert (outside / "inside" / "file").is_file()
