"""Lanes are made, used again and removed; whatever is killed or deleted meanwhile, no work is lost."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest

from segue.system.git.lanes import LaneTrees
from segue.system.git.repository import Repository
from tests.system.lane_driver import RUN
from tests.system.test_git import git, repo

__all__ = ["repo"]

KEPT = f"refs/segue/kept/{RUN}"


class Pool:
    """The lanes of a run in a repository with two commits."""

    def __init__(self, repo: Path, folder: Path) -> None:
        self.repo, self.folder = repo, folder
        self.first = git(repo, "rev-parse", "HEAD")
        (repo / "second").write_text("second\n")
        git(repo, "add", "--all")
        git(repo, "commit", "--quiet", "-m", "Second")
        self.second = git(repo, "rev-parse", "HEAD")
        git(repo, "branch", f"segue/{RUN}")

    async def lanes(self) -> LaneTrees:
        return LaneTrees(await Repository.open(self.repo), self.folder, RUN)

    def open(self, number: int = 1) -> Path:
        async def work() -> Path:
            return (await (await self.lanes()).open(number, self.first)).root

        return asyncio.run(work())

    def prepare(self, start: str = "") -> str:
        async def work() -> str:
            lanes = await self.lanes()
            return await lanes.prepare(await lanes.open(1, self.first), start or self.second)

        return asyncio.run(work())

    def keep(self, name: str) -> str:
        async def work() -> str:
            lanes = await self.lanes()
            return await lanes.keep(await lanes.open(1, self.first), name)

        return asyncio.run(work())

    def close(self) -> str:
        async def work() -> list[str]:
            return await (await self.lanes()).close()

        return "\n".join(asyncio.run(work()))

    def kept(self) -> list[str]:
        return git(self.repo, "for-each-ref", "--format=%(refname)", KEPT).split()

    def work_trees(self) -> int:
        return git(self.repo, "worktree", "list").count("\n")


@pytest.fixture
def pool(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Pool:
    return Pool(repo, tmp_path_factory.mktemp("state ü") / "worktrees")


def test_a_lane_is_made_on_no_branch_and_found_as_it_is(pool: Pool) -> None:
    lane = pool.open()
    assert lane == pool.folder / f"{RUN}-lane-1"
    assert git(lane, "rev-parse", "HEAD") == pool.first
    assert git(lane, "branch", "--show-current") == ""
    (lane / "work").write_text("x")
    assert pool.open() == lane
    assert (lane / "work").is_file()


def test_a_clean_lane_moves_on_without_a_word(pool: Pool) -> None:
    lane = pool.open()
    (lane / ".gitignore").write_text("node_modules\n")
    git(lane, "add", "--all")
    git(lane, "commit", "--quiet", "-m", "Work")
    git(pool.repo, "merge", "--quiet", "--no-edit", git(lane, "rev-parse", "HEAD"))
    git(pool.repo, "branch", "--force", f"segue/{RUN}")
    (lane / "node_modules").mkdir()
    (lane / "node_modules" / "one").write_text("installed")
    head = git(pool.repo, "rev-parse", "HEAD")
    assert pool.prepare(head) == ""
    assert git(lane, "rev-parse", "HEAD") == head
    assert (lane / "node_modules" / "one").is_file(), "dependencies serve the next task"
    assert pool.kept() == []


def test_what_a_task_left_is_kept_before_the_next_one(pool: Pool) -> None:
    lane = pool.open()
    (lane / "file").write_text("edit\n")
    (lane / "deep").mkdir()
    (lane / "deep" / "näw file").write_text("new\n")
    (lane / "staged").write_text("staged\n")
    git(lane, "add", "staged")
    said = pool.prepare()
    (ref,) = pool.kept()
    assert ref in said
    assert "staged" in said
    assert git(pool.repo, "show", f"{ref}:file") == "edit"
    assert git(pool.repo, "show", f"{ref}:deep/näw file") == "new"
    assert git(lane, "status", "--porcelain") == ""
    assert git(lane, "rev-parse", "HEAD") == pool.second
    assert not (lane / "deep").exists()


def test_an_unfinished_merge_ends_and_is_kept(pool: Pool) -> None:
    lane = pool.open()
    (lane / "second").write_text("mine\n")
    git(lane, "add", "--all")
    git(lane, "commit", "--quiet", "-m", "mine")
    subprocess.run(["git", "merge", pool.second], cwd=lane, capture_output=True)
    assert "<<<<<<<" in (lane / "second").read_text()
    said = pool.prepare()
    assert (lane / "second").read_text() == "second\n"
    assert git(lane, "status", "--porcelain") == ""
    assert said.count("kept as") == 2


def test_files_that_only_the_agent_ignored_are_not_deleted(pool: Pool) -> None:
    lane = pool.open()
    (lane / ".gitignore").write_text("hidden\n")
    (lane / "hidden").write_text("precious\n")
    pool.prepare()
    assert git(lane, "status", "--porcelain") == ""
    assert "precious" in [git(pool.repo, "show", f"{ref}:hidden") for ref in pool.kept() if _has(pool, ref)]


def _has(pool: Pool, ref: str) -> bool:
    return "hidden" in git(pool.repo, "ls-tree", "--name-only", ref).split()


@pytest.mark.parametrize("there", ["second", "second/inside"])
def test_an_ignored_file_that_the_next_commit_has_is_moved_out_of_its_way(pool: Pool, there: str) -> None:
    lane = pool.open()
    (pool.repo / ".git" / "info").mkdir(exist_ok=True)
    (pool.repo / ".git" / "info" / "exclude").write_text("second\n")
    (lane / there).parent.mkdir(exist_ok=True)
    (lane / there).write_text("precious\n")
    said = pool.prepare()
    assert "was moved to" in said
    assert (lane / "second").read_text() == "second\n"
    assert (pool.folder / f"{RUN}-kept" / there).read_text() == "precious\n"


def test_a_lane_survives_what_users_do_to_tidy_up(pool: Pool) -> None:
    lane = pool.open()
    git(lane, "commit", "--quiet", "--allow-empty", "-m", "under way")
    (lane / "work").write_text("x")
    git(lane, "add", "--all")
    git(pool.repo, "worktree", "prune")
    git(pool.repo, "reflog", "expire", "--all", "--expire=now")
    git(pool.repo, "gc", "--quiet", "--prune=now")
    assert pool.open() == lane
    assert git(lane, "log", "-1", "--format=%s") == "under way"
    assert git(lane, "show", ":work") == "x"


def test_work_in_a_lane_that_git_no_longer_knows_is_put_aside_and_named(pool: Pool) -> None:
    lane = pool.open()
    (lane / "work").write_text("precious")
    shutil.rmtree(pool.repo / ".git" / "worktrees" / lane.name)
    assert not (pool.open() / "work").exists()
    aside = pool.folder / f"{lane.name}-kept"
    assert (aside / "work").read_text() == "precious"
    assert str(aside) in pool.close()
    assert pool.work_trees() == 0


def test_closing_keeps_uncommitted_work_and_removes_the_lane(pool: Pool) -> None:
    lane = pool.open()
    (lane / "work").write_text("precious\n")
    said = pool.close()
    (ref,) = pool.kept()
    assert ref in said
    assert git(pool.repo, "show", f"{ref}:work") == "precious"
    assert pool.work_trees() == 0
    assert [path.name for path in pool.folder.iterdir()] == [f"{RUN}.lock"]


def test_closing_leaves_a_lane_with_ignored_files_that_nobody_can_make_again(pool: Pool) -> None:
    (pool.repo / ".git" / "info").mkdir(exist_ok=True)
    (pool.repo / ".git" / "info" / "exclude").write_text(".env\nnotes\nnode_modules\nlinked\n")
    (pool.repo / ".env").write_text("A=1\n")
    lane, other = pool.open(1), pool.open(2)
    for place in (lane, other):
        (place / ".env").write_text("A=1\n")  # a copy
        (place / "linked").symlink_to(pool.repo / ".env")
        (place / "node_modules").mkdir()
        (place / "node_modules" / "one").write_text("x")
    (lane / "notes").write_text("precious")
    said = pool.close()
    assert f"{lane} was not removed: no commit contains notes." in said
    assert (lane / "notes").is_file()
    assert not other.exists(), "everything there exists elsewhere, or can be made again"
