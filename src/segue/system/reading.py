"""Read files that others may have prepared: regular ones only, up to a size, and inside of a folder."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from segue.domain.text import find_nearest
from segue.system.beneath import UnsafeFile as UnsafeFile
from segue.system.beneath import read_open, read_still, write_still
from segue.system.process.notes import BINARY

LARGEST = 16 * 1024**2
"""Bytes that a file of tasks, settings or state may have."""

_MOST_NAMES = 5000


def read_file(path: Path, inside: Path | None = None, limit: int = LARGEST) -> bytes:
    """Return the contents of a regular file of at most `limit` bytes.

    A path below the folder `inside` must stay there when its links are followed. Raises UnsafeFile, or
    OSError if there is no such file or it may not be read.
    """
    if inside is not None:
        # What was checked is what is opened: a link that is put there in between is not followed.
        return read_still(Path(check_inside(path, inside)), limit)
    # Without O_NONBLOCK, opening a pipe that nobody writes to would wait for ever.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | BINARY)
    with os.fdopen(handle, "rb"):
        return read_open(handle, str(path), limit)


def write_inside(path: Path, inside: Path, data: bytes, durable: bool = True) -> None:
    """Write a file, whole or not at all; it must be below the folder when its links are followed."""
    write_still(Path(check_inside(path, inside)), data, durable)


def check_inside(path: Path, folder: Path) -> str:
    """Refuse a path below a folder that leads out of it through a link; returns where it leads."""
    written = os.path.abspath(path)  # noqa: PTH100 - resolve() would follow the links
    real, home = os.path.realpath(path), os.path.realpath(folder)
    below = any(_is_below(written, place) for place in (os.path.abspath(folder), home))  # noqa: PTH100
    if below and not _is_below(real, home):
        raise UnsafeFile(
            f"{path} is a link that leads out of {folder}: to {real}.",
            hint="Replace the link with the file itself, or name that file if you mean it.",
        )
    return real


def leads_out(path: Path, folder: Path) -> bool:
    """Return whether a path below a folder leads out of it through a link."""
    try:
        check_inside(path, folder)
    except UnsafeFile:
        return True
    return False


def explain_unreadable(path: Path, error: Exception) -> str:
    """Say in a sentence why a file cannot be read, from what happened when it was."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return f"{path} does not exist.{suggest_path(path)}"
    if isinstance(error, IsADirectoryError):
        return f"{path} is a folder, not a file."
    if isinstance(error, OSError):
        return f"{path} cannot be read: {error.strerror or error}."
    if isinstance(error, UnicodeDecodeError):
        line = error.object[: error.start].count(b"\n") + 1
        return f"{path} is not UTF-8: line {line} cannot be read."
    import tomllib  # only mistakes need it

    kind = " as TOML" if isinstance(error, tomllib.TOMLDecodeError) else ""
    return f"{path} cannot be read{kind}: {str(error).rstrip('.')}."


def suggest_path(path: Path) -> str:
    """Return ` Did you mean …?` with a file or folder of a similar name; empty if there is none."""
    try:
        with os.scandir(path.parent) as entries:
            near = find_nearest(path.name, [entry.name for entry in islice(entries, _MOST_NAMES)])
    except OSError:
        return ""
    if near is None:
        return ""
    shown = os.path.relpath(path.parent / near)
    return f" Did you mean {path.parent / near if shown.startswith('..') else shown}?"


def work_tree(start: Path) -> Path:
    """Return the work tree around a folder; the folder itself if it is in none."""
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), start)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
