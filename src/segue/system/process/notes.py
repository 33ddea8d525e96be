"""Small JSON files that Segue and its supervisors leave for each other, complete or not at all."""

# The supervisor imports this, and pathlib would cost it start-up time.
# ruff: noqa: PTH105, PTH108
from __future__ import annotations

import contextlib
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


def claim(path: str, data: dict[str, Any]) -> bool:
    """Write a small JSON file, complete from the beginning; return False if there is one already."""
    new = f"{path}.{os.getpid()}"
    _write(new, json.dumps(data).encode())
    try:
        os.link(new, path)
    except FileExistsError:
        return False
    finally:
        with contextlib.suppress(OSError):
            os.unlink(new)
    return True


def write_whole(path: str, data: dict[str, Any]) -> None:
    """Write a small JSON file so that a reader sees all of it or nothing."""
    new = f"{path}.{os.getpid()}"
    _write(new, json.dumps(data).encode())
    replace(new, path)


def reserve(path: str, size: int) -> None:
    """Take the room for a small JSON file that must be written later, however full the disk is then."""
    _write(f"{path}.reserved", b" " * size)


def write_reserved(path: str, data: dict[str, Any]) -> None:
    """Write a file that room was reserved for: in place, so that no more is needed, then as a whole."""
    # Blanks after it do no harm.
    _write(f"{path}.reserved", json.dumps(data).encode(), os.O_WRONLY)
    replace(f"{path}.reserved", path)


def _write(path: str, rest: bytes, how: int = os.O_WRONLY | os.O_CREAT | os.O_TRUNC) -> None:
    fd = os.open(path, how | BINARY, 0o600)
    try:
        while rest:
            rest = rest[os.write(fd, rest) :]
    finally:
        os.close(fd)


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
