"""What a clone has, committed or not, continues in a clone on another machine, and is pushed as a branch."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from segue.domain.errors import Unavailable, WorkspaceError
from segue.features.fleet.git.clones import Clones
from segue.features.fleet.git.portable import Packed, deliver, pack, unpack
from segue.system.git.repository import Repository
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


def test_uncommitted_files_keep_every_byte(machines: Machines) -> None:
    name = "windows"
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


def test_damaged_work_is_refused(machines: Machines) -> None:
    head = "--orphan=x"
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
    with pytest.raises(WorkspaceError):
        asyncio.run(unpack(at(clone), Packed(packed.data[:-10], packed.head, "")))
    assert look(clone) == before


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


def test_a_remote_that_is_gone_is_named_with_a_hint(machines: Machines) -> None:
    clone = machines.clone("one")
    git(clone, "remote", "set-url", "origin", "http://127.0.0.1:9/nothing")
    with pytest.raises(Unavailable) as caught:
        asyncio.run(deliver(at(clone), "segue/run"))
    assert "network" in caught.value.reason
