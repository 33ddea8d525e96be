"""Run `segue` and kill it at one durable system call: alone, or together with everything it has started."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.cli.place import DEADLINE, Place, processes_with
from tests.warm import start_segue

_PAGE = struct.Struct("IIII112s128s")
_GIT = '#!/bin/sh\nLD_PRELOAD="{shim}" exec "{git}" "$@"\n'


@cache
def compiler() -> str | None:
    """Return the C compiler of this machine."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


@cache
def shim() -> Path:
    """Return the library that counts and kills, and beside it a git that has it loaded."""
    folder = Path(tempfile.mkdtemp(prefix="segue-crash-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library = folder / "shim.so"
    source = Path(__file__).with_name("shim.c")
    subprocess.run([str(compiler()), "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    git = folder / "bin" / "git"
    git.parent.mkdir()
    git.write_text(_GIT.format(shim=library, git=shutil.which("git")))
    git.chmod(0o755)
    return library


@dataclass(frozen=True)
class Crash:
    """How a command that was to be killed at a call has ended."""

    code: int
    calls: int
    """How many durable calls there were until then."""
    hit: int
    """The process that came to the call; 0: the command ended before."""
    what: str
    """The call and its file."""


def crash(place: Place, command: Sequence[str], at: int, together: bool) -> Crash:
    """Run a command and kill it at its durable call number `at`.

    Alone it is only Segue whose calls count and that is killed: what it has started goes on. Together the
    calls of its git and its supervisor count too, and all are killed at once, as by a power failure.
    """
    page = place.root / "crash-page"
    page.write_bytes(_PAGE.pack(0, at, together, 0, b"", str(place.root).encode()))
    env = {**place.env, "LC_CRASH": str(page)}
    if together:
        env |= {"PATH": f"{shim().parent / 'bin'}:{env['PATH']}", "LD_PRELOAD": str(shim())}
    with (place.root / "crashed.log").open("w") as log:
        process = start_segue(command, place.repo, env, log, preload=str(shim()))
    end = time.monotonic() + DEADLINE
    while process.poll() is None:
        if together and (hit := _read(page)[3]):
            _end_all([process.pid, hit], str(page))
        assert time.monotonic() < end, f"call {at} and the end were never reached"
        time.sleep(0.002)
    calls, _, _, hit, what, _ = _read(page)
    return Crash(process.wait(), calls, hit, what.rstrip(b"\0").decode("utf-8", "replace"))


def _read(page: Path) -> tuple[int, int, int, int, bytes, bytes]:
    found: tuple[int, int, int, int, bytes, bytes] = _PAGE.unpack(page.read_bytes())
    return found


def _end_all(pids: list[int], marker: str) -> None:
    """Kill these processes and all whose environment has the marker, until there are no more of them."""
    while found := [*pids, *processes_with(marker)]:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        pids = []


def resume(place: Place, command: Sequence[str]) -> str:
    """Continue after a kill as a user would; return what a refusal says.

    Who is told that there is no run yet gives the first command again.
    """
    done = place.segue("resume", code=None)
    if done.returncode == 2 and "there is no run" in done.stderr:
        done = place.segue(*command, code=None)
    return "" if done.returncode == 0 else f"exit {done.returncode}: {done.stdout[-1500:]}{done.stderr}"
