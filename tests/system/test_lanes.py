"""Lanes are made, used again and removed; whatever is killed or deleted meanwhile, no work is lost."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from segue.domain.errors import WorkspaceError
from segue.system.git.lanes import LaneTrees
from segue.system.git.repository import Repository
from tests.cli.place import DEADLINE, processes_with
from tests.crash.points import _PAGE, Fault, compiler, send, shim
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


def test_lanes_are_made_side_by_side(pool: Pool) -> None:
    async def work() -> list[Repository]:
        lanes = await pool.lanes()
        return list(await asyncio.gather(*(lanes.open(number, pool.first) for number in range(1, 5))))

    assert len({lane.root for lane in asyncio.run(work())}) == 4
    assert pool.close() == ""
    assert pool.work_trees() == 0


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


def test_commits_that_were_not_merged_are_kept(pool: Pool) -> None:
    lane = pool.open()
    git(lane, "commit", "--quiet", "--allow-empty", "-m", "failed")
    commit = git(lane, "rev-parse", "HEAD")
    assert "not merged" in pool.prepare()
    git(pool.repo, "reflog", "expire", "--all", "--expire=now")
    git(pool.repo, "gc", "--quiet", "--prune=now")
    assert git(pool.repo, "cat-file", "-t", commit) == "commit"
    assert pool.prepare() == "", "it is kept once"


def test_a_task_that_was_tried_twice_is_kept_twice(pool: Pool) -> None:
    lane = pool.open()
    git(lane, "commit", "--quiet", "--allow-empty", "-m", "one")
    assert pool.keep("task/3: try") == pool.keep("task/3: try") == f"{KEPT}/task-3-try"
    git(lane, "commit", "--quiet", "--allow-empty", "--amend", "-m", "two")
    assert pool.keep("task/3: try").startswith(f"{KEPT}/task-3-try-")
    assert len(pool.kept()) == 2


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


def test_an_unfinished_rebase_ends_and_its_commits_are_kept(pool: Pool) -> None:
    lane = pool.open()
    (lane / "second").write_text("mine\n")
    git(lane, "add", "--all")
    git(lane, "commit", "--quiet", "-m", "mine")
    mine = git(lane, "rev-parse", "HEAD")
    subprocess.run(["git", "rebase", pool.second], cwd=lane, capture_output=True)
    pool.prepare()
    assert "rebase" not in git(lane, "status")
    assert mine in git(pool.repo, "for-each-ref", "--format=%(objectname)", KEPT).split()


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


@pytest.mark.parametrize("commits", [0, 1])
def test_a_repository_inside_a_lane_is_moved_out_as_a_whole(pool: Pool, commits: int) -> None:
    lane = pool.open()
    git(lane, "init", "--quiet", "inner")
    (lane / "inner" / "work").write_text("precious")
    for _ in range(commits):
        git(lane / "inner", "-c", "user.name=A", "-c", "user.email=a@b", "commit", "--allow-empty", "-m", "x")
    assert "was moved to" in pool.prepare()
    assert git(lane, "status", "--porcelain") == ""
    assert (pool.folder / f"{RUN}-kept" / "inner" / "work").read_text() == "precious"


def test_a_submodule_with_work_in_it_is_moved_out(pool: Pool) -> None:
    inner = pool.folder.parent / "inner"
    git(pool.folder.parent, "init", "--quiet", "inner")
    git(inner, "-c", "user.name=A", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "-m", "x")
    lane = pool.open()
    git(lane, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
    git(lane, "commit", "--quiet", "-m", "Add")
    (lane / "sub" / "work").write_text("precious")
    said = pool.prepare(git(lane, "rev-parse", "HEAD"))
    assert "sub was moved to" in said
    assert git(lane, "status", "--porcelain") == ""
    assert (pool.folder / f"{RUN}-kept" / "sub" / "work").read_text() == "precious"


def test_a_deleted_lane_is_made_again(pool: Pool) -> None:
    shutil.rmtree(pool.open())
    assert (pool.open() / "file").is_file()
    shutil.rmtree(pool.open())
    git(pool.repo, "worktree", "prune")
    assert (pool.open() / "file").is_file()


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


def test_a_lane_without_its_link_to_git_gets_it_back(pool: Pool) -> None:
    lane = pool.open()
    (lane / "work").write_text("x")
    (lane / ".git").unlink()
    assert pool.open() == lane
    assert git(lane, "status", "--porcelain") == "?? work"


def test_work_in_a_lane_that_git_no_longer_knows_is_put_aside_and_named(pool: Pool) -> None:
    lane = pool.open()
    (lane / "work").write_text("precious")
    shutil.rmtree(pool.repo / ".git" / "worktrees" / lane.name)
    assert not (pool.open() / "work").exists()
    aside = pool.folder / f"{lane.name}-kept"
    assert (aside / "work").read_text() == "precious"
    assert str(aside) in pool.close()
    assert pool.work_trees() == 0


@pytest.mark.parametrize("known", [True, False])
def test_what_a_killed_git_left_half_made_is_made_again(pool: Pool, known: bool) -> None:
    lane = pool.open()
    (lane / "file").unlink()
    (pool.folder / f"{lane.name}.made").unlink()
    notes = pool.repo / ".git" / "worktrees" / lane.name
    (notes / "locked").write_text("initializing")
    if not known:  # another run has already removed them
        shutil.rmtree(notes)
    assert (pool.open() / "file").read_text() == "old\n"


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


def test_a_lane_that_somebody_locked_stays(pool: Pool) -> None:
    lane = pool.open()
    git(pool.repo, "worktree", "lock", str(lane))
    assert "locked" in pool.close()
    assert lane.is_dir()


def test_the_lanes_of_other_runs_stay(pool: Pool) -> None:
    lane = pool.open()

    async def work() -> None:
        await LaneTrees(await Repository.open(pool.repo), pool.folder, f"{RUN}-lane").close()
        await LaneTrees(await Repository.open(pool.repo), pool.folder, "other").close()

    asyncio.run(work())
    assert lane.is_dir()


def test_a_start_that_does_not_exist_is_refused(pool: Pool) -> None:
    with pytest.raises(WorkspaceError):
        pool.prepare("0" * 40)


NAMES = st.sampled_from(["file", "second", "a", "a/b", "a/c/d", "ü b", "log.txt", "-x", ".gitignore"])
TEXTS = st.sampled_from(["", "old\n", "second\n", "*.txt\na\n", "precious\n"])


@pytest.mark.thorough
@given(st.dictionaries(NAMES, st.none() | TEXTS, max_size=5), st.booleans(), st.booleans())
@settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
def test_every_content_of_a_file_is_kept(
    pool: Pool, files: dict[str, str | None], staged: bool, committed: bool
) -> None:
    """Whatever a task leaves: afterwards the lane is clean, and each file that was there can be found."""
    lane = pool.open()
    for name, text in files.items():
        path = lane / name
        if text is None:
            if path.is_file():
                path.unlink()
        elif not path.is_dir() and not any(parent.is_file() for parent in path.parents):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    if staged:
        git(lane, "add", "--all")
    if committed:
        git(lane, "commit", "--quiet", "--allow-empty", "--message=x")
    left = {path.relative_to(lane): path.read_text() for path in _files(lane)}
    pool.prepare()
    assert git(lane, "status", "--porcelain") == ""
    assert git(lane, "rev-parse", "HEAD") == pool.second
    found = {(path.relative_to(lane), path.read_text()) for path in _files(lane)}
    for ref in (*pool.kept(), pool.first, pool.second):
        for name in git(pool.repo, "ls-tree", "-r", "-z", "--name-only", ref).split("\0"):
            if name:
                found.add((Path(name), _text(pool.repo, f"{ref}:{name}")))
    moved = {path.read_text() for path in (pool.folder / f"{RUN}-kept").rglob("*") if path.is_file()}
    assert [path for path, text in left.items() if (path, text) not in found and text not in moved] == []


def _files(lane: Path) -> list[Path]:
    return [path for path in lane.rglob("*") if path.is_file() and path.name != ".git"]


def _text(repo: Path, name: str) -> str:
    return subprocess.run(["git", "show", name], cwd=repo, check=True, capture_output=True).stdout.decode()


@pytest.mark.quick("1")
@pytest.mark.skipif(compiler() is None, reason="no C compiler is installed")
@pytest.mark.parametrize("part", range(1, 5))
def test_after_a_kill_at_any_durable_call_nothing_is_lost(pool: Pool, part: int, tmp_path: Path) -> None:
    """Everything is killed at once, git too, while lanes are opened, prepared or removed."""
    _check_kill(pool, tmp_path, at=61 * part - int(time.time() // 86400) % 61)


@pytest.mark.thorough
@pytest.mark.skipif(compiler() is None, reason="no C compiler is installed")
def test_after_a_kill_at_every_durable_call_nothing_is_lost(
    repo: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    at, template = 1, repo
    while True:
        place = tmp_path_factory.mktemp("trial")
        shutil.copytree(template, place / "repo")
        if not _check_kill(Pool(place / "repo", place / "state"), place, at):
            return
        at += 1


def _check_kill(pool: Pool, place: Path, at: int) -> bool:
    """Kill at this call and finish the work afterwards; False: the work was over before."""
    arguments = [str(pool.repo), str(pool.folder), pool.first, pool.second]
    command = [sys.executable, "-m", "tests.system.lane_driver", *arguments]
    page = place / "page"
    page.write_bytes(_PAGE.pack(0, at, Fault.STOP, 0, b"", os.path.commonpath(arguments[:2]).encode()))
    env = {**os.environ, "LC_CRASH": str(page), "LD_PRELOAD": str(shim())}
    env["PATH"] = f"{shim().parent / 'bin'}:{env['PATH']}"
    process = subprocess.Popen(command, env=env)
    end = time.monotonic() + DEADLINE
    while process.poll() is None and not _PAGE.unpack(page.read_bytes())[3]:
        assert time.monotonic() < end
        time.sleep(0.002)
    was_hit = process.poll() is None
    while found := set(processes_with(str(page))):
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                send(pid, number)
    process.wait()
    what = _PAGE.unpack(page.read_bytes())[4].rstrip(b"\0")
    subprocess.run(command, check=True)
    assert pool.work_trees() == 0, what
    contents = {_text(pool.repo, f"{ref}:{path}") for ref in pool.kept() for path in _listed(pool, ref)}
    for lane in (1, 2):
        assert {f"edit of {lane}\n", f"work of {lane}\n"} <= contents, what
    return was_hit


def _listed(pool: Pool, ref: str) -> list[str]:
    return git(pool.repo, "ls-tree", "-r", "--name-only", ref).splitlines()
