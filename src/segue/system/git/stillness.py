"""Whether a small work tree is as it was when git last looked: times and sizes say so, without a process."""

# It is looked at after every launch, and pathlib would cost more than looking.
# ruff: noqa: PTH116, PTH118
from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection
from pathlib import Path

_MOST = 256
"""Files and folders beyond which git is quicker."""
_JUST_NOW = 50_000_000
"""Nanoseconds in which a file may be written twice and keep its time."""
_COARSE = 10_000_000
_COARSE_JUST_NOW = 3_000_000_000
"""The same where a file system counts in hundredths of a second, or in two seconds."""

Marks = dict[str, tuple[int, ...]]
"""What differs for every file that was written, made or removed in between."""


def mark_tree(root: Path, git_dir: Path, common: Path, without: Collection[str]) -> Marks | None:
    """Return the marks of a work tree and of what git compares it with; `without` are paths to skip.

    None if they would not do: in a large tree, in one with repositories inside, and where a file was written
    so recently that its next change might not show. Windows keeps no time of a change.
    """
    if os.name == "nt":
        return None
    now = time.time_ns()
    marks: Marks = {}
    try:
        _mark_files(str(root), marks, {os.path.join(root, path) for path in (".git", *without)})
        with contextlib.suppress(FileNotFoundError):
            _mark_files(f"{common}/info", marks, ())
    except (OSError, _NotThisWay):
        return None
    for place in (f"{git_dir}/HEAD", f"{git_dir}/index", f"{common}/packed-refs", f"{common}/config"):
        try:
            marks[place] = _mark(os.stat(place))
        except FileNotFoundError:
            marks[place] = ()
    return None if any(_is_fresh(mark[-1], now) for mark in marks.values() if mark) else marks


class _NotThisWay(Exception):
    """The tree is too large, or has repositories inside."""


def _mark_files(top: str, marks: Marks, skipped: Collection[str]) -> None:
    folders = [top]
    while folders:
        with os.scandir(folders.pop()) as found:
            for entry in found:
                if entry.path in skipped:
                    continue
                if entry.name == ".git" or len(marks) > _MOST:
                    raise _NotThisWay
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                    marks[entry.path] = ()
                else:
                    marks[entry.path] = _mark(entry.stat(follow_symlinks=False))


def _mark(found: os.stat_result) -> tuple[int, ...]:
    return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _is_fresh(changed: int, now: int) -> bool:
    return now - changed < (_JUST_NOW if changed % _COARSE else _COARSE_JUST_NOW)
