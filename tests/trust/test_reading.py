"""Files that others prepared: regular ones only, up to a size, and inside of a folder."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.errors import WorkspaceError
from segue.system.git.index import take_snapshot
from segue.system.git.repository import Repository, look
from segue.system.reading import UnsafeFile, read_file, work_tree
from tests.cli.place import Place


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "file").write_bytes(b"text")
    (tmp_path / "outside").write_bytes(b"secret")
    return inside


@pytest.mark.parametrize("target", ["../outside", "/dev/zero", "..", "/"])
def test_a_link_that_leads_out_is_refused(folder: Path, target: str) -> None:
    (folder / "link").symlink_to(target)
    with pytest.raises(UnsafeFile, match="leads out"):
        read_file(folder / "link", folder)


def test_a_folder_that_leads_out_is_refused(folder: Path) -> None:
    (folder / "sub").symlink_to("..")
    with pytest.raises(UnsafeFile, match="leads out"):
        read_file(folder / "sub" / "outside", folder)


def test_a_link_that_stays_inside_is_followed(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "link").symlink_to("../file")
    assert read_file(folder / "sub" / "link", folder) == b"text"


def test_pipes_and_devices_are_refused_at_once(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    for path in (folder / "pipe", Path("/dev/zero")):
        with pytest.raises(UnsafeFile, match="not a regular file"):
            read_file(path)
    with pytest.raises(OSError, match="directory"):
        read_file(folder)


@given(size=st.integers(0, 20), limit=st.integers(0, 20))
def test_only_so_much_is_read(tmp_path_factory: pytest.TempPathFactory, size: int, limit: int) -> None:
    path = tmp_path_factory.mktemp("sized") / "file"
    path.write_bytes(b"x" * size)
    if size <= limit:
        assert read_file(path, limit=limit) == b"x" * size
    else:
        with pytest.raises(UnsafeFile, match="larger"):
            read_file(path, limit=limit)


def test_a_snapshot_of_a_look_says_what_git_says(tmp_path: Path) -> None:
    place = Place.make(tmp_path)
    place.git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    place.git("config", "core.autocrlf", "input")
    (place.repo / "new.txt").write_text("new\r\n")
    (place.repo / "plan.md").write_text("changed")
    (place.repo / ".gitignore").write_text("ignored\n")
    (place.repo / "ignored").write_text("x")
    place.git("add", "new.txt")

    async def compare() -> None:
        for path in (place.repo, tmp_path / "side"):
            repo = await Repository.open(path)
            assert await take_snapshot(repo) == await repo.snapshot()

    asyncio.run(compare())


def test_a_work_tree_elsewhere_is_not_looked_at(tmp_path: Path) -> None:
    place = Place.make(tmp_path)
    place.git("config", "core.worktree", "../..")
    with pytest.raises(WorkspaceError, match="says that the work tree is"):
        asyncio.run(look(place.repo))
    assert work_tree(place.repo) == place.repo


def test_git_that_waits_for_a_pipe_is_ended(tmp_path: Path) -> None:
    place = Place.make(tmp_path)
    os.mkfifo(place.repo / ".git" / "pipe")
    with (place.repo / ".git" / "config").open("a") as file:
        file.write("[include]\n\tpath = pipe\n")
    with pytest.raises(WorkspaceError, match="did not answer"):
        asyncio.run(Repository.open(place.repo, timeout=0.5))
