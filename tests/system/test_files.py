"""State files are whole or untouched, private, and never lose one of two changes."""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from segue.domain.errors import SegueError
from segue.system.files import (
    brief_folder,
    clear_brief_folders,
    clear_temporary,
    create_new,
    exclusive,
    leave_memory,
    private_folder,
    write_atomic,
    write_error,
)
from segue.system.identity import start_time


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_is_private_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    write_atomic(file, b"one")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o664)
    write_atomic(file, b"two")
    assert file.read_bytes() == b"two"
    assert stat.S_IMODE(file.stat().st_mode) == 0o664
    assert names(tmp_path) == ["state.json"]


def test_a_reader_that_has_the_file_open_keeps_the_old_content(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    write_atomic(file, b"old")
    with file.open("rb") as reader:
        write_atomic(file, b"new content")
        assert reader.read() == b"old"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "real.md", tmp_path / "link.md"
    target.write_bytes(b"old")
    link.symlink_to("real.md")
    write_atomic(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    write_atomic(file, b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(SegueError, match="Cannot write") as caught:
            write_atomic(file, b"x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert str(file) in caught.value.message
    assert caught.value.kept
    assert file.read_bytes() == b"old"
    assert names(tmp_path) == ["state.json"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_made_read_only_is_respected(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_bytes(b"old")
    file.chmod(0o444)
    with pytest.raises(SegueError, match="Permission denied"):
        write_atomic(file, b"new")
    assert file.read_bytes() == b"old"


def begin_to_write(folder: Path) -> None:
    os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    write_atomic(folder / "state.json", b"new")


def test_what_a_killed_process_began_to_write_is_cleared(tmp_path: Path) -> None:
    """In a repository it would be committed as an agent's work."""
    mine = multiprocessing.get_context("fork").Process(target=begin_to_write, args=(tmp_path,))
    mine.start()
    mine.join()
    mine.close()
    assert len(names(tmp_path)) == 1
    start = start_time(os.getpid())
    living, foreign = tmp_path / f".segue-{os.getpid()}-{start}-x.tmp", tmp_path / ".segue-notes-of-mine.tmp"
    living.touch()
    foreign.touch()
    clear_temporary(tmp_path)
    assert names(tmp_path) == sorted([living.name, foreign.name])


def test_a_brief_folder_is_private_and_leaves_nothing() -> None:
    with brief_folder() as folder:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "inner").mkdir()
        (folder / "inner" / "file").touch()
        (folder / "link").symlink_to("/")
    assert not folder.exists()


def make_brief_folder(place: Path) -> None:
    leave_memory()
    with brief_folder(place) as folder:
        assert folder.parent == place
        (place / ".segue-1-999999999999-left.tmp" / "inner").mkdir(parents=True)
        clear_temporary(place)
        assert names(place) == [folder.name]


def test_without_memory_a_brief_folder_is_made_elsewhere(tmp_path: Path) -> None:
    apart = multiprocessing.get_context("fork").Process(target=make_brief_folder, args=(tmp_path,))
    apart.start()
    apart.join()
    assert apart.exitcode == 0
    assert names(tmp_path) == []


def test_brief_folders_of_killed_processes_are_cleared_once_they_are_old() -> None:
    with brief_folder() as folder:
        old, young = folder.with_name(".segue-1-0-old.tmp"), folder.with_name(".segue-1-0-young.tmp")
        for one in (old, young):
            one.mkdir(exist_ok=True)
            (one / "index.lock").touch()
        os.utime(old, (0, 0))
        clear_brief_folders()
        assert (old.exists(), young.exists(), folder.exists()) == (False, True, True)
        (young / "index.lock").unlink()
        young.rmdir()


@pytest.mark.parametrize("place", ["gone/state.json", "file/state.json", "."])
def test_places_where_no_file_can_be(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SegueError, match="Cannot write"):
        write_atomic(tmp_path / place, b"data")
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("number", "word"),
    [(errno.ENOSPC, "full"), (errno.EDQUOT, "quota"), (errno.EROFS, "read-only"), (errno.EACCES, "owns")],
)
def test_the_hint_fits_the_failure(number: int, word: str) -> None:
    error = write_error(OSError(number, os.strerror(number)), Path("a/state.json"))
    assert word in error.hint
    assert os.strerror(number) in error.message


def test_a_private_folder_is_private_with_the_parents_it_made(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        assert private_folder(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700


def test_a_folder_that_exists_is_left_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    private_folder(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_a_file_in_the_place_of_a_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    for path in (tmp_path / "a", tmp_path / "a" / "b"):
        with pytest.raises(SegueError, match="Not a directory"):
            private_folder(path)


def test_a_lock_in_a_folder_that_does_not_exist_is_told(tmp_path: Path) -> None:
    with pytest.raises(SegueError, match="Cannot write"), exclusive(tmp_path / "gone" / "lock"):
        pass


COUNT_UP = """
import sys
from pathlib import Path
from segue.system.files import exclusive, write_atomic
file = Path(sys.argv[1])
for _ in range(50):
    with exclusive(file.with_name("lock")):
        write_atomic(file, str(int(file.read_bytes()) + 1).encode())
"""


def test_no_change_is_lost_between_processes(tmp_path: Path) -> None:
    file = tmp_path / "count"
    write_atomic(file, b"0")
    workers = [subprocess.Popen([sys.executable, "-c", COUNT_UP, str(file)]) for _ in range(3)]
    assert [worker.wait() for worker in workers] == [0] * 3
    assert file.read_bytes() == b"150"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_atomic(pipe, b"said")
    assert os.read(reader, 10) == b"said"
    os.close(reader)
    assert pipe.is_fifo()


def test_a_file_is_created_once_and_never_replaced(tmp_path: Path) -> None:
    file = tmp_path / "new"
    assert create_new(file, b"first")
    assert not create_new(file, b"second")
    assert not create_new(tmp_path / "no" / "folder", b"")
    assert file.read_bytes() == b"first"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert names(tmp_path) == ["new"]
