"""Who lives on this machine: since when a process runs, what it belongs to, and what a job left running.

The supervisor imports this, so it imports little. Linux has /proc, other POSIX systems have `ps`; Windows
tells neither the environment nor the group of a process, so there a job is ended as a tree instead.
"""

# Importing pathlib and typing would cost a third of the supervisor's start-up time.
# ruff: noqa: PTH123, PTH208
from __future__ import annotations

import os
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

JOB_MARKER = "SEGUE_JOB_FOLDER"
"""The variable that every process of a job inherits; its value is the job's folder."""

SUPERVISOR_MARKER = "SEGUE_SUPERVISOR"
"""The variable that names a supervisor. A child shows it until it has become the agent: see `survivors`."""

Table = dict[int, tuple[int, int, int, bool]]
"""Every living process: its parent, group and session, and whether it carries one of the markers."""

_MOMENTS = 50


def start_time(pid: int) -> str | None:
    """When the process began, in a form that only compares; None when there is no such process."""
    if sys.platform == "win32":
        from segue.system.process.windows import creation_time

        return creation_time(pid)
    return proc_start_time(pid) if sys.platform == "linux" else ps_start_time(pid)


def proc_start_time(pid: int) -> str | None:
    """The start time as /proc tells it: clock ticks since the machine was started."""
    fields = _stat(pid)
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()


def ps_start_time(pid: int) -> str | None:
    """The start time as `ps` tells it: a date, exact to the second."""
    state, _, date = _ps("-p", str(pid), "-o", "state=,lstart=").strip().partition(b" ")
    return None if not date or state.startswith(b"Z") else b" ".join(date.split()).decode()


def survivors(markers: Iterable[str], pid: int | None, heirs: Iterable[int] = ()) -> set[int]:
    """The living processes of a job: its group and session, the marked, the heirs, and all descendants.

    A supervisor that is killed while it starts an agent leaves a child that is still its own image and
    becomes the agent a moment later; only the supervisor's own marker gives that child away.
    """
    if sys.platform == "win32":
        return {pid} if pid is not None and start_time(pid) is not None else set()
    wanted = {marker.encode() for marker in markers}
    table = proc_table(wanted) if sys.platform == "linux" else ps_table(wanted)
    found = {p for p, (_, group, session, marked) in table.items() if marked or pid in (p, group, session)}
    found |= set(heirs)
    more = found
    while more:
        more = {p for p, (parent, *_) in table.items() if parent in more} - found
        found |= more
    return found - {os.getpid()}


def proc_table(markers: set[bytes]) -> Table:
    """All processes as /proc tells them."""
    table = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        fields = _stat(int(name))
        if fields[0] not in (b"Z", b"X"):
            parent, group, session = map(int, fields[1:4])
            kernel = bool(int(fields[6]) & 0x200000)  # PF_KTHREAD
            marked = not kernel and not markers.isdisjoint(_environment(name))
            table[int(name)] = (parent, group, session, marked)
    return table


def ps_table(markers: set[bytes]) -> Table:
    """All processes as `ps` tells them; the group stands in for the session, which macOS does not tell."""
    shown = ["-AwwE"] if sys.platform == "darwin" else ["-Aww", "e"]
    table = {}
    for line in _ps(*shown, "-o", "pid=,ppid=,pgid=,state=,command=").splitlines():
        pid, parent, group, state, words = (*line.split(None, 4), b"")[:5]
        if not state.startswith(b"Z"):
            # A folder may have blanks in its name, so the line is searched as it is.
            marked = any(marker in words for marker in markers)
            table[int(pid)] = (int(parent), int(group), int(group), marked)
    return table


def _ps(*arguments: str) -> bytes:
    # Dates in one language and zone, or the same process would seem to be another one later.
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
    return subprocess.run(["ps", *arguments], env=environment, capture_output=True, check=False).stdout


def children() -> set[int]:
    """The children of this process's main thread, where the system tells them."""
    return {int(pid) for pid in _read(f"/proc/self/task/{os.getpid()}/children").split()}


def _stat(pid: int) -> list[bytes]:
    stat = _read(f"/proc/{pid}/stat")
    return stat[stat.rfind(b")") + 2 :].split() or [b"Z"]


def _environment(pid: str) -> list[bytes]:
    # While it becomes another program, a process shows no arguments and then, for a moment, no environment.
    looks = 0
    for _ in range(_MOMENTS):
        looks += bool(_read(f"/proc/{pid}/cmdline"))
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environment = file.read()
        except OSError:
            break  # gone, or somebody else's
        if environment:
            return environment.split(b"\0")
        if looks > 1:
            break
        time.sleep(0.001)
    return []


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
