"""What is too much for git: it reads a file to its end, whatever its size, before it says a word."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from segue.domain.errors import WorkspaceError
from segue.system.git.folders import GitPlace
from segue.system.git.gitlinks import read_index

_LEAST = 4096
"""Bytes that a file counts for at least: git stores each one as a file of its own."""
_MOST_LEFT_OUT = 200
"""Paths that are left out one by one; more of them would slow git down."""
_bound = [2 * 1024**3]
"""What git reads, packs and writes within the time it is given, on slow machines too."""

File = tuple[str, int]
"""A path as Python has it, and its size."""


def allow_bytes(most: int) -> None:
    """Let git add this much at once, from now on."""
    _bound[0] = most


def find_heavy(files: Iterable[File]) -> tuple[File, ...]:
    """Return what must be left out of these files: the largest, until the others are within the bound."""
    counted = [(path, max(size, _LEAST)) for path, size in files]
    total, heavy = sum(size for _, size in counted), []
    if total <= _bound[0]:
        return ()
    for path, size in sorted(counted, key=lambda file: -file[1]):
        heavy.append((path, size))
        total -= size
        if total <= _bound[0]:
            break
    return tuple(heavy)


def left_out(heavy: Iterable[File]) -> tuple[str, ...]:
    """Return the paths that git must not read; raises WorkspaceError if they are too many to be named."""
    paths = tuple(path for path, _ in heavy)
    if len(paths) > _MOST_LEFT_OUT:
        raise refuse_heavy(heavy)
    return paths


def refuse_heavy(heavy: Iterable[File]) -> WorkspaceError:
    """Return the error for files that git is not let read."""
    return WorkspaceError(
        name_heavy(map(describe, heavy)),
        kept="Git was stopped before it had read that; nothing was changed.",
        hint="Remove it, put back what was there, or raise git.add_bytes, then give the command again",
    )


def name_heavy(described: Iterable[str]) -> str:
    """Name files that are too large, and the setting that lets git read them."""
    names = tuple(described)
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    most = f"git.add_bytes is {_bound[0]} ({describe_size(_bound[0])})"
    return f"Too large for git to read: {shown}; {most}."


def describe(file: File) -> str:
    """Return the name of a file with its size, as it is shown and stored."""
    path, size = file
    return f"{os.fsencode(path).decode('utf-8', 'replace')} ({describe_size(size)})"


def describe_size(size: float) -> str:
    """Return a size in a unit that suits it."""
    units = ["TiB", "GiB", "MiB", "KiB", "bytes"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop()
    return f"{size:.4g} {units[-1]}"


def check_heavy(place: GitPlace) -> None:
    """Raise WorkspaceError if git reads a file that is too large to see whether it has changed.

    It does so where it knows no size, and knows sizes only up to a multiple of 4 GiB.
    """
    found = []
    for entry in read_index(str(place.git_dir)):
        try:
            now = (place.root / entry.name).lstat()
        except OSError:
            continue
        if stat.S_ISREG(now.st_mode) and divmod(now.st_mtime_ns, 10**9) != entry.mtime:
            found.append((entry.name, now.st_size))
    if heavy := find_heavy(found):
        raise refuse_heavy(heavy)
