"""Commits hold everything the agent left, also what it staged itself; without a change there is none."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from segue.domain.workspace import Snapshot
from segue.system.git.repository import Repository
from segue.system.process.capture import note_program
from tests.templates import copy_template


def git(repo: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=repo, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    copy_template(_make_repository, tmp_path)
    return tmp_path


def _make_repository(folder: Path) -> None:
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "config", "user.name", "Test")
    git(folder, "config", "user.email", "test@localhost")
    (folder / "file").write_text("old\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=Start")


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


def test_a_commit_whose_git_was_killed_right_after_it_is_found(
    repo: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("bin")
    (folder / "git").write_text(
        f'#!/bin/sh\n{shutil.which("git")} "$@"\ncode=$?\n'
        'case " $* " in *" commit "*) kill -9 $$;; esac\nexit $code\n'
    )
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
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


def work_and_begin(repo: Path, believed: float = 60.0) -> tuple[Snapshot, Snapshot]:
    """Commit what a launch left; return what the next task begins with, and what there really is."""

    async def work() -> tuple[Snapshot, Snapshot]:
        opened = await Repository.open(repo)
        opened.believed = believed
        await opened.tree(await opened.arrive((), await opened.snapshot()))
        assert await opened.commit("Work\n\nSegue-Task: 1\n")
        return await opened.begin("2", None), await opened.snapshot()

    return asyncio.run(work())


def test_a_change_inside_a_submodule_is_nobodys_work(
    repo: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    inner = tmp_path_factory.mktemp("inner")
    git(inner, "init", "--quiet")
    (inner / "deep").write_text("old\n")
    git(inner, "add", "--all")
    git(inner, "-c", "user.name=T", "-c", "user.email=t@localhost", "commit", "--quiet", "--message=Inner")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "inner")
    git(repo, "commit", "--quiet", "--message=With a submodule")
    (repo / "inner" / "deep").write_text("new\n")
    (repo / "file").write_text("new\n")
    begun, real = work_and_begin(repo)
    assert begun == real
    assert begun.files == ()
    assert (repo / "inner" / "deep").read_text() == "new\n"


def test_an_edit_between_two_tasks_is_not_the_agents(repo: Path) -> None:
    async def work() -> Snapshot:
        opened = await Repository.open(repo)
        opened.believed = 0.0
        (repo / "file").write_text("by the agent\n")
        await opened.arrive((), await opened.snapshot())
        await opened.commit("Work\n")
        (repo / "file").write_text("by a person\n")
        return await opened.begin("2", None)

    assert asyncio.run(work()).files == ("file",)


def edit_much(repo: Path) -> None:
    (repo / "file").rename(repo / "renamed")
    (repo / "binary").write_bytes(bytes(range(256)))
    (repo / "program").write_text("#!/bin/sh\n")
    (repo / "program").chmod(0o755)
    (repo / "link").symlink_to("renamed")


def add_attributes(repo: Path) -> None:
    (repo / ".gitattributes").write_text("* -diff\n")
    (repo / "file").write_text("new\n")


def commit_and_edit(repo: Path) -> None:
    (repo / "file").write_text("new\n")
    git(repo, "commit", "--quiet", "--all", "--message=Mine")
    (repo / "other").write_text("new\n")


@pytest.mark.parametrize(
    "work",
    [edit_much, add_attributes, commit_and_edit],
    ids=lambda one: one.__name__,
)
def test_a_patch_is_the_difference_of_two_trees(repo: Path, work: Callable[[Path], None]) -> None:
    base = git(repo, "rev-parse", "HEAD")
    work(repo)

    async def look() -> tuple[str, str, str]:
        opened = await Repository.open(repo)
        tree, diff = await opened.patch(base, await opened.snapshot())
        return tree, diff, await opened.diff(base, tree)

    index = (repo / ".git" / "index").read_bytes()
    tree, diff, expected = asyncio.run(look())
    assert diff == expected != ""
    assert (repo / ".git" / "index").read_bytes() == index, "looking changes nothing"
    git(repo, "add", "--all")
    assert git(repo, "rev-parse", f"{tree}^{{tree}}") == git(repo, "write-tree")


def touch_by_a_program(repo: Path) -> None:
    note_program()
    (repo / "late").write_text("new\n")


def edit_again(repo: Path) -> None:
    (repo / "file").write_text("now\n")
    (repo / "late").write_text("new\n")


def hold_the_index(repo: Path) -> None:
    (repo / "late").write_text("new\n")
    (repo / ".git" / "index.lock").touch()
    threading.Timer(0.1, (repo / ".git" / "index.lock").unlink).start()


@pytest.mark.parametrize("meanwhile", [touch_by_a_program, edit_again, hold_the_index])
def test_what_was_changed_since_the_evidence_is_committed_too(
    repo: Path, meanwhile: Callable[[Path], None]
) -> None:
    async def work() -> None:
        opened = await Repository.open(repo)
        opened.believed = 60.0
        (repo / "file").write_text("new\n")
        await opened.tree(await opened.arrive((), await opened.snapshot()))
        meanwhile(repo)
        assert await opened.commit("Work\n")

    asyncio.run(work())
    assert git(repo, "show", "HEAD:late") == "new"
    assert git(repo, "status", "--porcelain") == ""
