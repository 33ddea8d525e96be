"""Names of processes, and whether a named process is still alive.

A name is `host/boot/pid/start`: a recycled pid has another start time, a restarted machine another boot.
Only Linux counts start times from the boot; elsewhere the boot is neither needed nor known.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from segue.system.process.table import start_time as start_time

_UNKNOWN = "-"


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
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return _UNKNOWN


def identify(pid: int) -> str:
    """Return the name of a process on this machine."""
    return "/".join((host(), boot(), str(pid), start_time(pid) or _UNKNOWN))


@cache
def _me(pid: int) -> str:
    return identify(pid)


def me() -> str:
    """Return the name of this process."""
    return _me(os.getpid())


def is_here(name: str) -> bool:
    """Return whether the named process belongs to this machine, so that its death can be detected."""
    return name.split("/")[0] == host()


def is_dead(name: str) -> bool:
    """Return whether the named process is certainly dead. False can also mean: unknown from here."""
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
    """Return the pid in a name."""
    return int(name.split("/")[2])
