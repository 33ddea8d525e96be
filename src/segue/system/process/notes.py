"""Small JSON files that Segue and its supervisors leave for each other, complete or not at all."""

# The supervisor imports this, and pathlib would cost it start-up time.
# ruff: noqa: PTH105
from __future__ import annotations

import json
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BINARY: int = getattr(os, "O_BINARY", 0)
"""Without this flag, Windows changes line ends."""

_PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


def write_new(path: str, data: dict[str, Any]) -> None:
    """Write a small JSON file that must not exist yet."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o600)
    try:
        _write_all(fd, json.dumps(data).encode())
    finally:
        os.close(fd)


def write_whole(path: str, data: dict[str, Any]) -> None:
    """Write a small JSON file so that a reader sees all of it or nothing."""
    new = f"{path}.{os.getpid()}"
    write_new(new, data)
    replace(new, path)


def reserve(path: str, size: int) -> None:
    """Take the room for a small JSON file that must be written later, however full the disk is then."""
    fd = os.open(_reserved(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | BINARY, 0o600)
    try:
        _write_all(fd, b" " * size)
    finally:
        os.close(fd)


def write_reserved(path: str, data: dict[str, Any]) -> None:
    """Write a file that room was reserved for: in place, so that no more is needed, then as a whole."""
    fd = os.open(_reserved(path), os.O_WRONLY | BINARY)
    try:
        _write_all(fd, json.dumps(data).encode())  # the blanks after it do no harm
    finally:
        os.close(fd)
    replace(_reserved(path), path)


def _reserved(path: str) -> str:
    return f"{path}.reserved"


def _write_all(fd: int, rest: bytes) -> None:
    while rest:
        rest = rest[os.write(fd, rest) :]


def replace(new: str, path: str) -> None:
    """Replace a file by another; retry on Windows, which refuses while the old one is open."""
    for pause in _PAUSES if sys.platform == "win32" else ():
        try:
            os.replace(new, path)
        except PermissionError:
            time.sleep(pause)
        else:
            return
    os.replace(new, path)


def inbox(folder: str) -> str:
    """Return where the lines are that a job is told while it works: files with rising numbers as names."""
    return f"{folder}/inbox"


def quit_note(folder: str, name: str) -> str:
    """Return the file that asks the named supervisor to quit, where no signal can: see `threads.py`."""
    return f"{folder}/supervisors/quit-{name.split('/')[2] if name else ''}"
