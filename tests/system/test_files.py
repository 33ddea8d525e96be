"""State files are whole or untouched, private, and never lose one of two changes."""

from __future__ import annotations

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
    clear_temporary,
    create_new,
    private_folder,
    write_atomic,
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


def test_a_private_folder_is_private_with_the_parents_it_made(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        assert private_folder(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700


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


def test_a_file_is_created_once_and_never_replaced(tmp_path: Path) -> None:
    file = tmp_path / "new"
    assert create_new(file, b"first")
    assert not create_new(file, b"second")
    assert not create_new(tmp_path / "no" / "folder", b"")
    assert file.read_bytes() == b"first"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert names(tmp_path) == ["new"]
