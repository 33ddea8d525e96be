"""Who this process is, and whether the process behind a recorded name still lives.

A name is `host/boot/pid/start`: a recycled pid has another start time, a restarted machine another boot.
"""

from __future__ import annotations

import os
import socket
import sys
from functools import cache
from pathlib import Path

_UNKNOWN = "-"


@cache
def host() -> str:
    """This machine's name."""
    return socket.gethostname().replace("/", "_") or _UNKNOWN


@cache
def boot() -> str:
    """A name for the time since this machine was started."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return _UNKNOWN


def start_time(pid: int) -> str | None:
    """When the process began, in a form that only compares; None when there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None if sys.platform == "linux" or not _signalable(pid) else _UNKNOWN
    fields = stat[stat.rindex(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()


def _signalable(pid: int) -> bool:
    if sys.platform == "win32":
        return True  # cannot be told without psutil; the lease decides
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def identify(pid: int) -> str:
    """The name of a process on this machine."""
    return "/".join((host(), boot(), str(pid), start_time(pid) or _UNKNOWN))


@cache
def _me(pid: int) -> str:
    return identify(pid)


def me() -> str:
    """The name of this process."""
    return _me(os.getpid())


def is_here(name: str) -> bool:
    """Whether the named process belongs to this machine, so that its death can be seen."""
    return name.split("/")[0] == host()


def is_dead(name: str) -> bool:
    """Whether the named process is known to be gone. False also means: cannot be known from here."""
    try:
        where, when, pid, start = name.split("/")
        number = int(pid)
    except ValueError:
        return False
    if where != host():
        return False
    if when != boot():
        return True
    return start_time(number) != start


def pid_of(name: str) -> int:
    """The pid in a name."""
    return int(name.split("/")[2])
