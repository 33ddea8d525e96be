"""What a clone has, committed or not, continues in a clone on another machine, and comes home as a branch."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from segue.domain.errors import Unavailable, WorkspaceError
from segue.parts.fleet.git.bundles import bundle_base
from segue.parts.fleet.git.clones import Clones
from segue.parts.fleet.git.portable import Packed, bring, deliver, pack, unpack
from segue.system.git.repository import Repository
from segue.system.process.processes import Captured
from tests.cli.place import DEADLINE, processes_with
from tests.crash.points import _PAGE, Fault, compiler, send, shim
from tests.system.test_git import git, repo

__all__ = ["repo"]


class Machines:
    """A repository, and clones of it on machines that share nothing else."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.home, self.folder = home, folder
        (home / "folder").mkdir()
        (home / "folder" / "program").write_text("#!/bin/sh\n")
        (home / "folder" / "program").chmod(0o755)
        (home / ".gitignore").write_text("*.log\n")
        (home / "windows").write_bytes(b"one\r\ntwo\r\n")
        (home / ".gitattributes").write_text("windows text eol=crlf\n")
        (home / "link").symlink_to("file")
        git(home, "add", "--all")
        git(home, "commit", "--quiet", "-m", "Second")
        self.base = git(home, "rev-parse", "HEAD")

    def clone(self, name: str, branch: str = "segue/run") -> Path:
        where = self.folder / name
        clones = Clones(where / "cache")
        opened = asyncio.run(clones.open(str(self.home), self.base, where / "clone", branch=branch))
        git(opened.root, "config", "user.name", "Test")
        git(opened.root, "config", "user.email", "test@localhost")
        return opened.root

    def pack(self, clone: Path, before: str = "", most: int = 2**20) -> Packed:
        found = self.pack_if_changed(clone, before, most)
        assert found is not None
        return found

    def pack_if_changed(self, clone: Path, before: str = "", most: int = 2**20) -> Packed | None:
        return asyncio.run(pack(at(clone), self.base, before, most))


def at(folder: Path) -> Repository:
    return Repository(folder, folder / ".git")


def _content(path: Path) -> bytes:
    """Return what git compares: it converts line ends of one file when that is checked out."""
    data = path.read_bytes()
    return data.replace(b"\r\n", b"\n") if path.name == "windows" else data


def look(clone: Path) -> dict[str, object]:
    """Return all that must be the same on another machine."""
    files = {}
    for path in clone.rglob("*"):
        name = str(path.relative_to(clone))
        if name.startswith(".git/") or name.endswith(".log") or (path.is_dir() and not path.is_symlink()):
            continue
        files[name] = (
            (path.readlink(), 0) if path.is_symlink() else (_content(path), path.stat().st_mode & 0o100)
        )
    refs = git(clone, "for-each-ref", "refs/heads", "refs/segue/proof", "--format=%(objectname) %(refname)")
    return {
        "files": files,
        "refs": refs,
        "head": git(clone, "rev-parse", "HEAD") + git(clone, "branch", "--show-current"),
        "status": git(clone, "status", "--porcelain=v2", "-z", "--untracked-files=all"),
    }


@pytest.fixture
def machines(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Machines:
    return Machines(repo, tmp_path_factory.mktemp("machines ü"))


NAMES = [
    "file",
    "folder",
    "folder/program",
    "folder/new/deep",
    "link",
    "new",
    'a "b"\n\\c',
    "ü",
    "-x",
    "windows",
]
TEXTS = [b"", b"new\n", b"one\r\ntwo\n", b"\0\xff binary"]


def _write(place: Path, data: bytes) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    for parent in place.parents:
        if parent.is_symlink() or parent.is_file():
            parent.unlink()
    place.unlink(missing_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)


def _link(place: Path, data: bytes) -> None:
    _write(place, data)
    place.unlink()
    place.symlink_to("folder" if data else "nowhere")


def _delete(place: Path, _data: bytes) -> None:
    _write(place, b"")
    place.unlink()


def _set_mode(place: Path, data: bytes) -> None:
    if place.is_file() and not place.is_symlink():
        place.chmod(0o755 if data else 0o644)


def _add(place: Path, _data: bytes) -> None:
    git(_root(place), "add", "--all")


def _commit(place: Path, _data: bytes) -> None:
    git(_root(place), "commit", "--quiet", "--all", "--allow-empty", "-m", "Work")


def _branch(place: Path, data: bytes) -> None:
    git(_root(place), "branch", "--force", f"side-{len(data)}")
    git(_root(place), "update-ref", f"refs/segue/proof/{len(data)}", "HEAD")


def _unstage(place: Path, _data: bytes) -> None:
    git(_root(place), "rm", "-r", "--quiet", "--cached", "--ignore-unmatch", "folder")


def _detach(place: Path, _data: bytes) -> None:
    git(_root(place), "checkout", "--quiet", "--detach")


def _root(place: Path) -> Path:
    return next(parent for parent in place.parents if (parent / ".git").is_dir())


EDITS: list[Callable[[Path, bytes], None]] = [
    *(_write, _link, _delete, _set_mode, _add, _commit, _branch, _unstage, _detach),
]


@pytest.mark.thorough
@given(
    st.lists(st.tuples(st.sampled_from(EDITS), st.sampled_from(NAMES), st.sampled_from(TEXTS)), max_size=8)
)
@settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
def test_another_clone_continues_in_the_same_state(
    machines: Machines, edits: list[tuple[Callable[[Path, bytes], None], str, bytes]]
) -> None:
    """Whatever was done: HEAD, branches, files with their modes, and what git says of them are the same."""
    for used in machines.folder.iterdir():
        shutil.rmtree(used)
    first, second = machines.clone("one"), machines.clone("two")
    for edit, name, data in edits:
        edit(first / name, data)
    before, index = look(first), (first / ".git" / "index").read_bytes()
    packed = machines.pack(first)
    assert (first / ".git" / "index").read_bytes() == index
    assert look(first) == before
    for _ in range(2):
        asyncio.run(unpack(at(second), packed))
        assert look(second) == before
    assert machines.pack_if_changed(first, packed.digest) is None
    assert machines.pack_if_changed(second, packed.digest) is None, "the same state has the same digest"


@pytest.mark.quick("windows")
@pytest.mark.parametrize("name", ["windows", "new", "encoded"])
def test_uncommitted_files_keep_every_byte(machines: Machines, name: str) -> None:
    first, second = machines.clone("one"), machines.clone("two")
    (first / ".gitattributes").write_text(
        "windows text eol=crlf\n* ident\nencoded working-tree-encoding=UTF-16\n"
    )
    (first / name).write_bytes("$Id$ ü\r\nand\n".encode("utf-16"))
    asyncio.run(unpack(at(second), machines.pack(first)))
    assert (second / name).read_bytes() == (first / name).read_bytes()


def test_ignored_files_stay_and_others_make_way(machines: Machines) -> None:
    first, second = machines.clone("one"), machines.clone("two")
    (first / "new").write_text("new\n")
    (second / "old work").mkdir()
    (second / "old work" / "x").write_text("lost here\n")
    (second / "kept.log").write_text("a cache\n")
    git(second, "branch", "other")
    asyncio.run(unpack(at(second), machines.pack(first)))
    assert look(first) == look(second)
    assert (second / "kept.log").is_file()


def test_segues_own_files_are_not_packed(machines: Machines) -> None:
    first, second = machines.clone("one"), machines.clone("two")
    own = [at(clone) for clone in (first, second)]
    for one in own:
        (one.root / "state.json").write_text(str(one.root))
        one.keep_out([one.root / "state.json"])
    (first / "new").write_text("new\n")
    packed = asyncio.run(pack(own[0], machines.base))
    assert packed is not None
    asyncio.run(unpack(own[1], packed))
    assert (second / "new").is_file()
    assert (second / "state.json").read_text() == str(second)


def test_a_repository_inside_is_named_and_the_rest_is_packed(machines: Machines) -> None:
    first, second = machines.clone("one"), machines.clone("two")
    (first / "inner").mkdir()
    git(first / "inner", "init", "--quiet")
    (first / "new").write_text("new\n")
    packed = machines.pack(first)
    assert packed.left_out == ("inner/",)
    asyncio.run(unpack(at(second), packed))
    assert git(second, "status", "--porcelain") == "?? new"


@pytest.mark.quick("--orphan=x")
@pytest.mark.parametrize("head", ["", "--orphan=x", "other", "0" * 40])
def test_damaged_work_is_refused(machines: Machines, head: str) -> None:
    first, clone = machines.clone("one"), machines.clone("two")
    (first / "new").write_text("new\n")
    packed, before = machines.pack(first), look(clone)
    for bad in (
        Packed(packed.data, head, ""),
        Packed(packed.data[:50], packed.head, ""),
        Packed(b"", head, ""),
    ):
        with pytest.raises(WorkspaceError, match="damaged"):
            asyncio.run(unpack(at(clone), bad))
        with pytest.raises(WorkspaceError, match="damaged"):
            asyncio.run(bring(at(machines.home), bad, "segue/run"))
    with pytest.raises(WorkspaceError):
        asyncio.run(unpack(at(clone), Packed(packed.data[:-10], packed.head, "")))
    assert look(clone) == before


def test_a_conflict_is_packed_as_the_files_are(machines: Machines) -> None:
    first, second = machines.clone("one"), machines.clone("two")
    for text, branch in (("mine\n", "segue/run"), ("theirs\n", "other")):
        git(first, "checkout", "--quiet", "-B", branch, machines.base)
        (first / "file").write_text(text)
        git(first, "commit", "--quiet", "--all", "-m", text)
    subprocess.run(["git", "merge", "segue/run"], cwd=first, check=False, capture_output=True)
    asyncio.run(unpack(at(second), machines.pack(first)))
    assert (second / "file").read_text() == (first / "file").read_text()
    assert "<<<<<<<" in (second / "file").read_text()


def test_work_that_is_too_large_is_refused_with_its_largest_files(machines: Machines) -> None:
    clone = machines.clone("one")
    (clone / "small").write_text("x")
    (clone / "large").write_bytes(os.urandom(5000))
    with pytest.raises(WorkspaceError, match=r"Largest: large \(5000 bytes\), small"):
        machines.pack(clone, most=4000)
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "-m", "Work")
    with pytest.raises(WorkspaceError, match=r"Largest: large \(5000 bytes\), small"):
        machines.pack(clone, most=4000)


def test_an_unchanged_state_costs_one_git(machines: Machines, count_gits: Callable[[], int]) -> None:
    clone = machines.clone("one")
    clean = machines.pack(clone).digest
    count_gits()
    assert machines.pack_if_changed(clone, clean) is None
    assert count_gits() == 1
    (clone / "new").write_text("new\n")
    dirty = machines.pack(clone, clean).digest
    assert count_gits() == 3
    assert machines.pack_if_changed(clone, dirty) is None
    assert count_gits() == 1
    (clone / "new").write_text("newer\n")
    assert machines.pack(clone, dirty).digest not in (clean, dirty)


@pytest.fixture
def count_gits(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], int]:
    """Return how many gits were started since it was last asked."""
    return make_counter(tmp_path_factory.mktemp("bin"), monkeypatch)


def make_counter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    started = folder / "started"
    program = folder / "git"
    program.write_text(f'#!/bin/sh\necho >> "{started}"\nexec "{shutil.which("git")}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def count() -> int:
        found = len(started.read_bytes()) if started.exists() else 0
        started.unlink(missing_ok=True)
        return found

    return count


def test_a_bundle_of_the_whole_history_makes_a_clone(machines: Machines) -> None:
    git(machines.home, "tag", "v1")
    data = asyncio.run(bundle_base(at(machines.home), machines.base))

    async def give() -> bytes:
        return data

    async def work() -> Path:
        clones = Clones(machines.folder / "cache")
        opened = await clones.open(
            "local:abc", machines.base, machines.folder / "x", give, branch="segue/run"
        )
        return opened.root

    clone = asyncio.run(work())
    assert git(clone, "log", "--format=%s") == "Second\nStart"
    assert git(clone, "describe", "--tags") == "v1"
    assert git(clone, "remote") == ""
    data, fresh = b"", machines.folder / "y"
    with pytest.raises(WorkspaceError, match="its history is missing"):
        asyncio.run(Clones(machines.folder / "other").open("local:abc", machines.base, fresh, give))
    with pytest.raises(WorkspaceError, match="Largest"):
        asyncio.run(bundle_base(at(machines.home), machines.base, most=100))


def test_a_shallow_repository_cannot_be_bundled(machines: Machines) -> None:
    git(machines.folder, "clone", "--quiet", "--depth=1", f"file://{machines.home}", "shallow")
    with pytest.raises(WorkspaceError, match="whole history") as caught:
        asyncio.run(bundle_base(at(machines.folder / "shallow"), machines.base))
    assert "--unshallow" in caught.value.hint


def test_work_comes_home_as_branches_and_nothing_else_changes(machines: Machines) -> None:
    clone = machines.clone("one")
    (clone / "done").write_text("done\n")
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "-m", "Work")
    (clone / "undone").write_text("undone\n")
    (machines.home / "mine").write_text("mine\n")
    before = look(machines.home)
    packed = machines.pack(clone)
    said = asyncio.run(bring(at(machines.home), packed, "segue/run"))
    assert "segue/run-uncommitted" in said
    assert git(machines.home, "show", "segue/run:done") == "done"
    assert git(machines.home, "show", "--format=", "--name-only", "segue/run-uncommitted") == "undone"
    after = look(machines.home)
    assert {name for name in before if before[name] != after[name]} == {"refs"}
    assert git(machines.home, "for-each-ref", "refs/segue") == ""
    assert "already" in asyncio.run(bring(at(machines.home), packed, "segue/run"))


def test_a_branch_with_other_commits_is_not_overwritten(machines: Machines) -> None:
    clone = machines.clone("one")
    git(clone, "commit", "--quiet", "--allow-empty", "-m", "Work")
    git(machines.home, "checkout", "--quiet", "-b", "segue/run")
    git(machines.home, "commit", "--quiet", "--allow-empty", "-m", "Mine")
    mine = git(machines.home, "rev-parse", "HEAD")
    git(machines.home, "checkout", "--quiet", "main")
    packed = machines.pack(clone)
    with pytest.raises(WorkspaceError, match="not overwritten") as caught:
        asyncio.run(bring(at(machines.home), packed, "segue/run"))
    assert "git branch -m segue/run" in caught.value.hint
    assert git(machines.home, "rev-parse", "segue/run") == mine


def test_who_lacks_the_base_is_told_to_fetch_it(machines: Machines) -> None:
    clone = machines.clone("one")
    git(clone, "commit", "--quiet", "--allow-empty", "-m", "Work")
    git(machines.folder, "clone", "--quiet", str(machines.home), "old")
    git(machines.folder / "old", "reset", "--quiet", "--hard", "HEAD~1")
    git(machines.folder / "old", "update-ref", "-d", "refs/remotes/origin/main")
    fresh = machines.folder / "fresh"
    fresh.mkdir()
    git(fresh, "init", "--quiet")
    with pytest.raises(WorkspaceError) as caught:
        asyncio.run(bring(at(fresh), machines.pack(clone), "segue/run"))
    assert "git fetch" in caught.value.hint
    said = asyncio.run(bring(at(machines.folder / "old"), machines.pack(clone), "segue/run"))
    assert "segue/run" in said, "it has the commit, though on no branch"


@pytest.mark.quick("main", "segue//x")
@pytest.mark.parametrize("name", ["main", "segue/../main", "segue/", "-segue/x", "segue/x.lock", "segue//x"])
def test_only_branches_of_segue_are_touched(machines: Machines, name: str) -> None:
    clone = machines.clone("one")
    with pytest.raises(WorkspaceError, match="not the name of a branch"):
        asyncio.run(deliver(at(clone), name))
    with pytest.raises(WorkspaceError, match="not the name of a branch"):
        asyncio.run(bring(at(machines.home), machines.pack(clone), name))


def test_a_branch_is_pushed_but_never_by_force(machines: Machines) -> None:
    clone = machines.clone("one")
    hook = clone / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir()
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    git(clone, "commit", "--quiet", "--allow-empty", "-m", "Work")
    assert "as a new branch" in asyncio.run(deliver(at(clone), "segue/run"))
    assert "already" in asyncio.run(deliver(at(clone), "segue/run"))
    git(clone, "commit", "--quiet", "--allow-empty", "-m", "More")
    assert asyncio.run(deliver(at(clone), "segue/run")) == "Branch segue/run was pushed."
    pushed = git(machines.home, "rev-parse", "segue/run")
    assert pushed == git(clone, "rev-parse", "HEAD")
    git(clone, "reset", "--quiet", "--hard", machines.base)
    git(clone, "commit", "--quiet", "--allow-empty", "-m", "Other")
    with pytest.raises(WorkspaceError, match="could not be pushed") as caught:
        asyncio.run(deliver(at(clone), "segue/run"))
    assert "Somebody else" in caught.value.hint
    assert git(machines.home, "rev-parse", "segue/run") == pushed


class BackSoon(Repository):
    """A clone whose remote is away, and back when it is asked what it has."""

    async def try_git(self, *args: str, **more: Any) -> Captured:
        """Run git."""
        home = Path((await super().try_git("remote", "get-url", "origin")).out.decode().strip())
        if args[0] == "ls-remote":
            home.with_name("away").rename(home)
        return await super().try_git(*args, **more)


def test_a_remote_that_comes_back_between_two_questions_has_not_refused_the_branch(
    machines: Machines,
) -> None:
    clone = machines.clone("one")
    git(clone, "commit", "--quiet", "--allow-empty", "-m", "Work")
    machines.home.rename(machines.home.with_name("away"))
    assert "as a new branch" in asyncio.run(deliver(BackSoon(clone, clone / ".git"), "segue/run"))
    assert git(machines.home, "rev-parse", "segue/run") == git(clone, "rev-parse", "HEAD")


def test_a_remote_that_is_gone_is_named_with_a_hint(machines: Machines) -> None:
    clone = machines.clone("one")
    git(clone, "remote", "set-url", "origin", "http://127.0.0.1:9/nothing")
    with pytest.raises(Unavailable) as caught:
        asyncio.run(deliver(at(clone), "segue/run"))
    assert "network" in caught.value.reason


@pytest.mark.quick("3")
@pytest.mark.skipif(compiler() is None, reason="no C compiler is installed")
@pytest.mark.parametrize("part", range(1, 7))
def test_a_kill_at_any_durable_call_can_be_repeated(machines: Machines, part: int, tmp_path: Path) -> None:
    """Everything is killed at once, git too, while a mirror, a clone or the state in it is made."""
    check_kill(machines, tmp_path, at=23 * part - int(time.time() // 86400) % 23)


@pytest.mark.thorough
@pytest.mark.skipif(compiler() is None, reason="no C compiler is installed")
def test_a_kill_at_every_durable_call_can_be_repeated(machines: Machines, tmp_path: Path) -> None:
    at = 1
    while check_kill(machines, tmp_path, at):
        at += 1


def check_kill(machines: Machines, place: Path, at: int) -> bool:
    """Kill at this call and do it again; False: it was over before."""
    first, where = machines.folder / "one" / "clone", machines.folder / "two"
    if not first.exists():
        machines.clone("one")
        git(first, "commit", "--quiet", "--allow-empty", "-m", "Work")
        git(first, "mv", "folder", "moved")
        (first / "file").write_text("uncommitted\n")
        (first / "new").write_text("new\n")
        (machines.folder / "packed").write_bytes(msgspec.msgpack.encode(machines.pack(first)))
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir()
    arguments = [str(machines.home), machines.base, str(where / "cache"), str(where / "clone")]
    command = [
        sys.executable,
        "-m",
        "tests.parts.fleet.portable_driver",
        *arguments,
        str(machines.folder / "packed"),
    ]
    page = place / "page"
    page.write_bytes(_PAGE.pack(0, at, Fault.STOP, 0, b"", str(where).encode()))
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
    assert look(where / "clone") == look(first), what
    return was_hit
