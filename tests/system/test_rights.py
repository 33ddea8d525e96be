"""Rights that a launch gave to files are taken back; those that were there before stay."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from segue.proof.rights import take_back_rights
from tests.system.test_git import git, repo

__all__ = ["repo"]

pytestmark = pytest.mark.skipif(os.name == "nt", reason="files have no such modes there")


def now(repo: Path) -> int:
    """Return what time it is for files, after all that was done so far."""
    (repo / ".git" / "clock").touch()
    return (repo / ".git" / "clock").stat().st_ctime_ns


def begin(repo: Path) -> int:
    """Return an instant that is over for files."""
    began = now(repo)
    while now(repo) == began:
        pass
    return began


def make(path: Path, mode: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("place", "mode"), [("tool", 0o4755), ("node_modules/x/tool", 0o2755), (".git/hooks/not\udcff", 0o6711)]
)
def test_bits_that_a_launch_set_are_taken_back(repo: Path, place: str, mode: int) -> None:
    before = make(repo / "old", mode)
    began = begin(repo)
    after = make(repo / place, mode)
    (said,) = take_back_rights(repo, repo / ".git", began)
    assert ("setuid" if mode & 0o4000 else "setgid") in said
    said.encode()
    assert (stat.S_IMODE(before.stat().st_mode), stat.S_IMODE(after.stat().st_mode)) == (mode, mode & 0o777)


def test_what_honest_agents_do_is_left_alone(repo: Path) -> None:
    shared = repo / "shared"
    shared.mkdir()
    shared.chmod(0o2775)  # a folder whose files belong to its group
    began = begin(repo)
    (shared / "new").mkdir()
    (shared / "sticky").mkdir()
    (shared / "sticky").chmod(0o1777)
    (repo / "node_modules" / "open").mkdir(parents=True)
    (repo / "node_modules" / "open").chmod(0o777)
    make(repo / "tool", 0o755)
    os.mkfifo(repo / "control")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(repo / "s"))
    (repo / "link").symlink_to("/bin/su")
    assert take_back_rights(repo, repo / ".git", began) == []
    assert (repo / "control").is_fifo()


def test_a_pipe_in_place_of_a_file_that_git_reads_is_removed(repo: Path) -> None:
    tracked = git(repo, "ls-files").split()[0]
    began = begin(repo)
    (repo / tracked).unlink()
    (repo / "sub").mkdir()
    pipes = [repo / tracked, repo / "sub" / ".gitignore"]
    for pipe in pipes:
        os.mkfifo(pipe)
    said = take_back_rights(repo, repo / ".git", began)
    assert len(said) == 2
    assert not any(os.path.lexists(pipe) for pipe in pipes)
