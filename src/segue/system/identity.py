"""The processes of this machine: their names, whether one is alive, and which ones a job left running.

A name is `host/boot/pid/start`: a recycled pid has another start time, a restarted machine another boot.
Only Linux counts start times from the boot; elsewhere the boot is neither needed nor known. The supervisor
imports this, so psutil, which is slow to import, is loaded only when the processes are searched.
"""

# Importing pathlib and typing would cost a third of the supervisor's start-up time.
# ruff: noqa: PTH123

from __future__ import annotations

import contextlib
import os
import sys
import time
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import psutil

JOB_MARKER = "SEGUE_JOB_FOLDER"
"""The variable that every process of a job inherits; its value is the job's folder."""

SUPERVISOR_MARKER = "SEGUE_SUPERVISOR"
"""The variable that names a supervisor. A child has it until it becomes the agent: see `find_survivors`."""

_EXEC_LOOKS = 50


def start_time(pid: int) -> str | None:
    """Return when a process started, in a form that only compares; None if there is no such process."""
    if sys.platform != "linux":
        return portable_start_time(pid)
    stat = read_raw(f"/proc/{pid}/stat")
    fields = stat[stat.rfind(b")") + 2 :].split() or [b"Z"]
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()


def portable_start_time(pid: int) -> str | None:
    """Return the same as `start_time` on systems without /proc."""
    import psutil

    try:
        process = psutil.Process(pid)
        # The hash of a process covers its pid and start; `create_time` would move when the clock is set.
        return None if process.status() == psutil.STATUS_ZOMBIE else str(hash(process))
    except psutil.Error:
        return None


def find_survivors(markers: Mapping[str, str], pid: int | None, heirs: Iterable[int] = ()) -> set[int]:
    """Return the living processes of a job: its group and session, the marked, the heirs, all descendants.

    A supervisor that is killed while it starts an agent leaves a child that is still its own image and
    becomes the agent a moment later; only the supervisor's own marker identifies that child.
    """
    import psutil

    table: dict[int, psutil.Process] = {}
    found = set(heirs)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                continue
            table[process.pid] = process
            if (pid is not None and pid in _groups(process.pid)) or _has_marker(process, markers):
                found.add(process.pid)
    more = found
    while more:
        more = {child for child in table if _has_parent_in(table, child, more)} - found
        found |= more
    return found - {os.getpid()}


def is_marked(pid: int, folder: str, leader: int | None) -> bool:
    """Return whether a process on Linux has a job's marker, or is in the group or session it began with."""
    if f"{JOB_MARKER}={folder}".encode() in read_raw(f"/proc/{pid}/environ").split(b"\0"):
        return True
    with contextlib.suppress(ProcessLookupError):
        return leader in _groups(pid)
    return False


def _groups(pid: int) -> tuple[int, ...]:
    if sys.platform == "win32":
        return (pid,)
    return (pid, os.getpgid(pid), os.getsid(pid))


def _has_marker(process: psutil.Process, markers: Mapping[str, str]) -> bool:
    # While it becomes another program, a process shows no arguments and then, for a moment, no environment.
    looks = 0
    for _ in range(_EXEC_LOOKS):
        looks += bool(process.cmdline())
        environment = process.environ()
        if environment:
            return any(environment.get(name) == value for name, value in markers.items())
        if looks > 1 or process.memory_info().vms == 0:
            break  # it has none, or it is a thread of the kernel
        time.sleep(0.001)
    return False


def _has_parent_in(table: Mapping[int, psutil.Process], pid: int, parents: set[int]) -> bool:
    import psutil

    with contextlib.suppress(psutil.Error):
        parent = table[pid].ppid()
        # Windows keeps the pid of a dead parent, which may belong to a younger process by now.
        return parent in parents and (
            sys.platform != "win32"
            or (parent in table and table[parent].create_time() <= table[pid].create_time())
        )
    return False


def find_inner(pid: int, layers: int) -> int:
    """Return the process that is this many layers below another, as far as there is one."""
    for _ in range(layers):
        pid = next(iter(_children(pid)), pid)
    return pid


def group_of(pid: int) -> int:
    """Return the process group of a process; its own number if it is gone."""
    if sys.platform == "win32":
        return pid
    try:
        return os.getpgid(pid)
    except OSError:
        return pid


def own_children() -> set[int]:
    """Return the children of this process's main thread, on Linux."""
    return set(_children(os.getpid()))


def _children(pid: int) -> list[int]:
    return [int(child) for child in read_raw(f"/proc/{pid}/task/{pid}/children").split()]


def read_raw(path: str) -> bytes:
    """Return what is in a file of the system; nothing if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def is_in_job() -> bool:
    """Return whether an agent of a run started this process, itself or through others.

    Some agents give the programs they start a clean environment, so the processes above count, too.
    """
    if os.environ.get(JOB_MARKER):
        return True
    import psutil

    with contextlib.suppress(psutil.Error):
        for parent in psutil.Process().parents():
            with contextlib.suppress(psutil.Error, OSError):
                if parent.environ().get(JOB_MARKER):
                    return True
    return False


_UNKNOWN = "-"
_FIRST_PIDS = 0xEFFFFFFC
"""The number that Linux gives to the pids outside of all containers."""


@cache
def host() -> str:
    """Return this machine's name."""
    import socket

    return socket.gethostname().replace("/", "_") or _UNKNOWN


def person() -> str:
    """Return who uses this machine, as `user@host`."""
    import getpass

    return f"{getpass.getuser()}@{host()}"


@cache
def boot() -> str:
    """Return an id of the current boot of this machine."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return _UNKNOWN


@cache
def _place() -> str:
    """Return where pids mean what they mean here: on this machine, or in one container of it."""
    with contextlib.suppress(OSError):
        found = os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116
        return host() if found == _FIRST_PIDS else f"{host()}:{found}"
    return host()


def identify(pid: int) -> str:
    """Return the name of a process on this machine."""
    return "/".join((_place(), boot(), str(pid), start_time(pid) or _UNKNOWN))


@cache
def _me(pid: int) -> str:
    return identify(pid)


def me() -> str:
    """Return the name of this process."""
    return _me(os.getpid())


def is_here(name: str) -> bool:
    """Return whether the named process belongs to this machine, so that its death can be detected."""
    return name.split("/")[0] == _place()


def is_dead(name: str) -> bool:
    """Return whether the named process is certainly dead. False can also mean: unknown from here."""
    try:
        where, when, pid, start = name.split("/")
        number = int(pid)
    except ValueError:
        return False
    if where != _place():
        return False
    if when != boot():
        return True
    return start_time(number) != start


def pid_of(name: str) -> int:
    """Return the pid in a name."""
    return int(name.split("/")[2])
