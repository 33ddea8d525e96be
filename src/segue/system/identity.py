"""Who this process is, and whether the process behind a recorded name still lives.

A name is `host/boot/pid/start`: a recycled pid has another start time, a restarted machine another boot.
Where the start is a date and not a count from the boot, the boot is not needed and not known.
"""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path

from segue.system.process.table import start_time as start_time

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
