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

from segue.domain.errors import WorkspaceError
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


def test_what_the_agent_staged_itself_is_committed(repo: Path) -> None:
    (repo / "file").write_text("new\n")
    git(repo, "add", "file")
    assert commit(repo) == git(repo, "rev-parse", "HEAD")
    assert git(repo, "show", "HEAD:file") == "new"


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


def test_a_tree_holds_what_was_changed_in_the_second_of_the_last_commit(repo: Path) -> None:
    for name, value in (("core.checkStat", "minimal"), ("core.trustctime", "false")):
        git(repo, "config", name, value)
    os.utime(repo / "file", (1000, 1000))
    git(repo, "update-index", "--really-refresh")
    (repo / "file").write_text("new\n")  # of the same size
    for path in (repo / "file", repo / ".git" / "index"):
        os.utime(path, (1000, 1000))

    async def work() -> str:
        found = await Repository.open(repo)
        return await found.tree(await found.snapshot())

    assert git(repo, "show", f"{asyncio.run(work())}:file") == "new"


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


def test_the_head_is_found_wherever_git_keeps_it(
    repo: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def head(folder: Path) -> str:
        return await (await Repository.open(folder)).head()

    first = git(repo, "rev-parse", "HEAD")
    assert asyncio.run(head(repo)) == first
    git(repo, "pack-refs", "--all")
    assert asyncio.run(head(repo)) == first
    tree = tmp_path_factory.mktemp("trees") / "tree"
    git(repo, "worktree", "add", "--quiet", "-b", "feature/one", str(tree))
    git(tree, "commit", "--quiet", "--allow-empty", "--message=There")
    assert asyncio.run(head(tree)) == git(tree, "rev-parse", "HEAD") != first
    assert asyncio.run(head(repo)) == first
    git(repo, "checkout", "--quiet", "--detach", "feature/one")
    assert asyncio.run(head(repo)) == git(tree, "rev-parse", "HEAD")
    git(repo, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    git(repo, "symbolic-ref", "HEAD", "refs/heads/alias")
    assert asyncio.run(head(repo)) == first
    git(repo, "symbolic-ref", "HEAD", "refs/heads/unborn")
    assert asyncio.run(head(repo)) == ""


def work_and_begin(repo: Path, believed: float = 60.0) -> tuple[Snapshot, Snapshot]:
    """Commit what a launch left; return what the next task begins with, and what there really is."""

    async def work() -> tuple[Snapshot, Snapshot]:
        opened = await Repository.open(repo)
        opened.believed = believed
        await opened.tree(await opened.arrive((), await opened.snapshot()))
        assert await opened.commit("Work\n\nSegue-Task: 1\n")
        return await opened.begin("2", None), await opened.snapshot()

    return asyncio.run(work())


def test_a_task_begins_with_what_the_commit_before_it_left(repo: Path) -> None:
    (repo / "file").write_text("new\n")
    (repo / "folder").mkdir()
    (repo / "folder" / "other").write_text("new\n")
    begun, real = work_and_begin(repo)
    assert begun == real
    assert (begun.head, begun.branch, begun.dirty) == (git(repo, "rev-parse", "HEAD"), "main", "")


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


def log_calls(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a git first on PATH that writes down how it is called."""
    real = shutil.which("git")
    (folder / "git").write_text(f'#!/bin/sh\necho "$*" >> {folder}/calls\nexec {real} "$@"\n')
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder / "calls"


def test_a_committed_task_needs_four_calls_of_git(
    repo: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_calls(tmp_path_factory.mktemp("bin"), monkeypatch)

    async def work() -> list[str]:
        opened = await Repository.open(repo)
        opened.believed = 60.0
        for number in range(3):
            log.write_text("")
            base = await opened.begin(str(number), None)
            (repo / f"file-{number}").write_text("new\n")
            now = await opened.arrive((), base)
            await opened.changes(base, now)
            tree = await opened.tree(now)
            assert await opened.tree_of(str(await opened.commit("Work\n"))) == tree
        return log.read_text().splitlines()

    calls = [call.removeprefix("-c maintenance.auto=false ") for call in asyncio.run(work())]
    assert [call.split()[0] for call in calls] == ["status", "add", "write-tree", "commit"]


def edit_much(repo: Path) -> None:
    (repo / "file").rename(repo / "renamed")
    (repo / "binary").write_bytes(bytes(range(256)))
    (repo / "program").write_text("#!/bin/sh\n")
    (repo / "program").chmod(0o755)
    (repo / "link").symlink_to("renamed")


def add_attributes(repo: Path) -> None:
    (repo / ".gitattributes").write_text("* -diff\n")
    (repo / "file").write_text("new\n")


def split_the_index(repo: Path) -> None:
    git(repo, "update-index", "--split-index")
    (repo / "file").write_text("new\n")


def commit_and_edit(repo: Path) -> None:
    (repo / "file").write_text("new\n")
    git(repo, "commit", "--quiet", "--all", "--message=Mine")
    (repo / "other").write_text("new\n")


def only_commit(repo: Path) -> None:
    (repo / "file").write_text("new\n")
    git(repo, "commit", "--quiet", "--all", "--message=Mine")


@pytest.mark.parametrize(
    "work",
    [edit_much, add_attributes, split_the_index, commit_and_edit, only_commit],
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


def test_a_tree_is_made_again_only_if_something_may_have_changed(
    repo: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = log_calls(tmp_path_factory.mktemp("bin"), monkeypatch)

    async def look() -> tuple[str, str, str]:
        opened = await Repository.open(repo)
        opened.believed = 60.0
        (repo / "file").write_text("new\n")
        now = await opened.arrive((), await opened.snapshot())
        first, _ = await opened.patch(now.head, now)
        calls.write_text("")
        again = await opened.tree(now)
        assert calls.read_text() == ""
        note_program()
        (repo / "late").write_text("new\n")
        return first, again, await opened.tree(now)

    first, again, late = asyncio.run(look())
    assert first == again != late


def test_the_tree_of_a_commit_is_found_wherever_git_keeps_it(repo: Path) -> None:
    head, tree = git(repo, "rev-parse", "HEAD", "HEAD^{tree}").split()

    async def found(*names: str) -> set[str]:
        opened = await Repository.open(repo)
        return {await opened.tree_of(name) for name in names}

    git(repo, "tag", "--annotate", "--message=Tagged", "tagged")
    assert asyncio.run(found(head, git(repo, "rev-parse", "tagged"))) == {tree}
    git(repo, "gc", "--quiet")
    assert asyncio.run(found(head)) == {tree}


def touch_by_a_program(repo: Path) -> None:
    note_program()
    (repo / "late").write_text("new\n")


def stage_by_hand(repo: Path) -> None:
    (repo / "late").write_text("new\n")
    git(repo, "add", "late")


def edit_again(repo: Path) -> None:
    (repo / "file").write_text("now\n")
    (repo / "late").write_text("new\n")


def hold_the_index(repo: Path) -> None:
    (repo / "late").write_text("new\n")
    (repo / ".git" / "index.lock").touch()
    threading.Timer(0.1, (repo / ".git" / "index.lock").unlink).start()


@pytest.mark.parametrize("meanwhile", [touch_by_a_program, stage_by_hand, edit_again, hold_the_index])
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


def test_git_looks_only_now_and_then_whether_to_tidy_up(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tmp_path / "trace"
    monkeypatch.setenv("GIT_TRACE", str(trace))

    async def work() -> list[int]:
        opened, seen = await Repository.open(repo), []
        for number in range(3):
            trace.write_text("")
            (repo / f"file-{number}").write_text("new\n")
            await opened.commit("Work\n")
            seen.append(trace.read_text().count("run_command: git maintenance run"))
        return seen

    assert asyncio.run(work()) == [1, 0, 0]


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to give a folder to somebody else")
def test_a_repository_of_somebody_else_says_how_to_trust_it(
    repo: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    for path in (repo, repo / ".git"):
        os.chown(path, 12345, 12345)
    with pytest.raises(WorkspaceError, match="dubious ownership") as refused:
        commit(repo)
    assert f"git config --global --add safe.directory {repo}" in refused.value.hint
