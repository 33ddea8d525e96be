"""Files below a folder: whatever is there, nothing outside is read or written, and nobody waits."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.domain.errors import SegueError
from segue.system.beneath import (
    Beneath,
    UnsafeFile,
    append_below,
    read_below,
    write_still,
)
from segue.system.files import exclusive

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links and pipes are different there")

NAMES = ("a", "b", "c")
PATHS = st.lists(st.sampled_from((*NAMES, "..", ".")), min_size=1, max_size=3).map("/".join)
KINDS = st.sampled_from(("file", "folder", "pipe", "outside", "outside folder", "dangling", "inside"))
TREES = st.lists(st.tuples(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join), KINDS))
DEEDS = st.sampled_from(("read", "write", "delete", "remove", "names", "folders", "strict folders", "link"))
SECRET = b"secret"


def plant(root: Path, outside: Path, path: str, kind: str) -> None:
    """Put something there, if the folder above it is one and nothing is there yet."""
    place = root / path
    if os.path.lexists(place):
        return  # writing into a pipe would wait
    with contextlib.suppress(OSError):
        if kind == "file":
            place.write_bytes(path.encode())
        elif kind == "folder":
            place.mkdir()
        elif kind == "pipe":
            os.mkfifo(place)
        else:
            targets = {"outside": outside / "secret", "outside folder": outside, "inside": root / "a"}
            place.symlink_to(targets.get(kind, root / "nowhere"))


def is_plain(root: Path, path: str) -> bool:
    """The model: a path whose every part but the last is a real folder, and that never goes up."""
    parts = [part for part in path.split("/") if part != "."]
    above = [root.joinpath(*parts[:end]) for end in range(1, len(parts))]
    return ".." not in parts and all(one.is_dir() and not one.is_symlink() for one in above)


def do(folder: Beneath, deed: str, path: str) -> bytes | None:
    with contextlib.suppress(OSError, UnsafeFile):
        if deed == "read":
            return folder.read(path, 100)
        if deed == "write":
            folder.write(path, b"new", durable=False)
        elif deed == "delete":
            folder.delete(path)
        elif deed == "remove":
            folder.remove(path)
        elif deed == "names":
            assert "secret" not in folder.names(path)
        elif deed == "folders":
            folder.make_folders(path)
        elif deed == "strict folders":
            folder.make_folders(path, clear=False)
        else:
            folder.make_link(path, "a")
    return None


@settings(max_examples=60, deadline=None)
@given(tree=TREES, deeds=st.lists(st.tuples(DEEDS, PATHS), max_size=6))
def test_nothing_outside_is_read_or_written(
    tree: list[tuple[str, str]], deeds: list[tuple[str, str]]
) -> None:
    top = Path(tempfile.mkdtemp())
    try:
        root, outside = top / "root", top / "outside"
        for folder in (root, outside, outside / "a"):
            folder.mkdir()
        for place in (outside / "secret", outside / "a" / "b"):
            place.write_bytes(SECRET)
        for path, kind in tree:
            if is_plain(root, path):
                plant(root, outside, path, kind)
        with Beneath(root) as open_root:
            for deed, path in deeds:
                place, plain = root / path, is_plain(root, path) and path.strip("./") != ""
                readable = plain and place.is_file() and not place.is_symlink()
                found = do(open_root, deed, path)
                if deed == "read":
                    assert found == (place.read_bytes() if readable else None)
                if deed == "write" and plain and not (place.is_dir() and not place.is_symlink()):
                    assert place.read_bytes() == b"new"
                if deed == "folders" and ".." not in path.split("/"):
                    assert place.is_dir()
                    assert not place.is_symlink()
        assert sorted(str(one.relative_to(outside)) for one in outside.rglob("*")) == ["a", "a/b", "secret"]
        assert (outside / "secret").read_bytes() == (outside / "a" / "b").read_bytes() == SECRET
        assert sorted(one.name for one in top.iterdir()) == ["outside", "root"]
    finally:
        shutil.rmtree(top)


def test_a_file_is_written_with_its_mode_in_place_of_one_of_its_names(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("old")
    (tmp_path / "elsewhere").chmod(0o750)
    (tmp_path / "a").hardlink_to(tmp_path / "elsewhere")
    with Beneath(tmp_path) as folder:
        folder.write("a", b"new")
    assert (tmp_path / "elsewhere").read_text() == "old"
    assert (tmp_path / "a").read_text() == "new"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o750
    assert len(list(tmp_path.iterdir())) == 2, "no draft is left"


def test_what_is_no_file_is_neither_opened_nor_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tmp_path / "socket"))
    (tmp_path / "huge").touch()
    os.truncate(tmp_path / "huge", 2**40)
    (tmp_path / "device").symlink_to("/dev/zero")
    with Beneath(tmp_path) as folder:
        for name in ("pipe", "socket", "huge", "device"):
            with pytest.raises(UnsafeFile):
                folder.read(name, 1000)
    for name in ("pipe", "device"):
        with pytest.raises(SegueError, match="Cannot write"):
            write_still(tmp_path.resolve() / name, b"x")


def test_a_link_counts_where_it_stays_below(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "real").mkdir(parents=True)
    (root / "real" / "a").write_text("a")
    (tmp_path / "secret").write_text("secret")
    (root / "inside").symlink_to("real")
    (root / "out").symlink_to(tmp_path)
    assert read_below(root, root / "inside" / "a") == b"a"
    assert read_below(root, root / "out" / "secret") == b""
    append_below(root, root / "inside" / "a", "b")
    append_below(root, root / "out" / "secret", "b")
    assert (root / "real" / "a").read_text() == "ab"
    assert (tmp_path / "secret").read_text() == "secret"


@pytest.mark.parametrize("what", ["a pipe", "a link", "held"])
def test_a_lock_that_somebody_prepared_is_not_waited_for(tmp_path: Path, what: str) -> None:
    lock = tmp_path / "lock"
    if what == "a pipe":
        os.mkfifo(lock)
    elif what == "a link":
        lock.symlink_to(tmp_path / "made")
    with contextlib.ExitStack() as stack:
        if what == "held":
            stack.enter_context(exclusive(lock))
        with pytest.raises(SegueError, match="Cannot write"), exclusive(lock, patience=0.0):
            pass
    assert not (tmp_path / "made").exists()
