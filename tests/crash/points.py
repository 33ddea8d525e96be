"""Run `segue` and let something happen at one of its durable system calls."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from pathlib import Path

from tests.cli.place import DEADLINE, Place, processes_with
from tests.warm import start_segue

SEED = int(os.environ.get("SEGUE_CRASH_SEED", "20772"))
"""Chooses the calls."""
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
    subprocess.run(
        [str(compiler()), "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl", "-lpthread"], check=True
    )
    git = folder / "bin" / "git"
    git.parent.mkdir()
    git.write_text(_GIT.format(shim=library, git=shutil.which("git")))
    git.chmod(0o755)
    return library


class Fault(IntEnum):
    """What happens at the call; see `shim.c`."""

    KILL = 0
    STOP = 1
    FULL = 2
    BROKEN = 3


@dataclass(frozen=True)
class Crash:
    """How a command to which something happened at a call has ended."""

    code: int
    calls: int
    """How many durable calls there were until then."""
    hit: int
    """The process that came to the call; 0: the command ended before."""
    what: str
    """The call and its file."""


@dataclass(frozen=True)
class Stopped:
    """A command that is stopped at a call, with all it has started."""

    place: Place
    process: subprocess.Popen[str]
    hit: int
    """The process that has stopped: Segue, its supervisor or a git."""
    marker: str

    def children(self) -> list[int]:
        """Return the processes that it has started, and theirs."""
        return [pid for pid in processes_with(self.marker) if pid != self.process.pid]

    def kill_all(self) -> None:
        """Kill everything at once, as a power cut does: nobody lives to see another one die."""
        while found := {*self._known(), *processes_with(self.marker)}:
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in found:
                    send(pid, number)

    def _known(self) -> list[int]:
        return [self.process.pid, self.hit] if self.process.poll() is None else []


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may be gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def crash(
    place: Place,
    command: Sequence[str],
    at: int,
    fault: Fault = Fault.KILL,
    act: Callable[[Stopped], None] | None = None,
) -> Crash:
    """Run a command, and let something happen at its durable call number `at`.

    With `KILL`, Segue alone is counted and killed: what it has started goes on. Else the calls of its git
    and its supervisor count too, and with `STOP` `act` says what happens.
    """
    page = place.root / "crash-page"
    _write(page, at, fault, place.root)
    env = {**place.env, "LC_CRASH": str(page)}
    if fault is not Fault.KILL:
        env |= {"PATH": f"{shim().parent / 'bin'}:{env['PATH']}", "LD_PRELOAD": str(shim())}
    with (place.root / "crashed.log").open("w") as log:
        process = start_segue(command, place.repo, env, log, preload=str(shim()))
    end = time.monotonic() + DEADLINE
    while process.poll() is None:
        if act is not None and (hit := _read(page)[3]):
            act(Stopped(place, process, hit, str(page)))
            act = None
        assert time.monotonic() < end, f"call {at} and the end were never reached"
        time.sleep(0.002)
    calls, _, _, hit, what, _ = _read(page)
    return Crash(process.wait(), calls, hit, what.rstrip(b"\0").decode("utf-8", "replace"))


def kill_gits(page: Path, at: int, root: Path) -> dict[str, str]:
    """Return the variables with which the git that comes to the durable call number `at` is killed there."""
    _write(page, at, Fault.KILL, root)
    return {"PATH": f"{shim().parent / 'bin'}:{os.environ['PATH']}", "LC_CRASH": str(page)}


def count_calls(page: Path) -> int:
    """Return how many durable calls there were."""
    return _read(page)[0]


def _write(page: Path, at: int, fault: Fault, root: Path) -> None:
    page.write_bytes(_PAGE.pack(0, at, fault, 0, b"", str(root).encode()))


def _read(page: Path) -> tuple[int, int, int, int, bytes, bytes]:
    found: tuple[int, int, int, int, bytes, bytes] = _PAGE.unpack(page.read_bytes())
    return found


def resume(place: Place, command: Sequence[str]) -> str:
    """Continue after a kill as a user would; return what a refusal says.

    Who is told that there is no run yet gives the first command again.
    """
    done = place.segue("resume", code=None)
    if done.returncode == 2 and "no run" in done.stderr:
        done = place.segue(*command, code=None)
    return "" if done.returncode == 0 else f"exit {done.returncode}: {done.stdout[-1500:]}{done.stderr}"
