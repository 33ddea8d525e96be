"""Keeps `git gc` away for a moment: objects that no branch contains yet must not be removed just then.

With `--prune=now` it removes whatever was unreachable when it looked, even if a branch contains that by now.
So that two never run at once, git notes the one at work in `gc.pid`. Whoever is named there keeps others out;
if that process is dead, the note counts for nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

_PAUSE = 0.02
_PATIENCE = 60.0
"""Seconds that a `git gc` is waited for: one that takes longer hardly ever prunes at once."""
_BRIEFLY = 5.0
"""Seconds to wait for a lock file that nobody seems to need."""


@asynccontextmanager
async def no_gc(common: Path) -> AsyncIterator[bool]:
    """Wait for a `git gc` that is at work, then let none begin; yield whether there was one."""
    note, waited = common / "gc.pid", False
    began = time.monotonic()
    while not (taken := _take(note)):
        waited = True
        if time.monotonic() - began > (_PATIENCE if _is_held(note) else _BRIEFLY):
            break
        await asyncio.sleep(_PAUSE)
    try:
        yield waited
    finally:
        if taken:
            note.unlink(missing_ok=True)


def _take(note: Path) -> bool:
    """Write ourselves into the file as git does; False if somebody else is at work."""
    lock = note.with_name(f"{note.name}.lock")
    try:
        handle = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except OSError:
        return False
    with contextlib.ExitStack() as stack:
        stack.callback(lock.unlink, missing_ok=True)
        with os.fdopen(handle, "w") as file:
            file.write(f"{os.getpid()} {socket.gethostname()}")
        if _is_held(note):
            return False
        lock.replace(note)
    return True


def _is_held(note: Path) -> bool:
    try:
        number = int(note.read_text().split()[0])
        os.kill(number, 0)
    except (OSError, ValueError, IndexError) as error:
        return isinstance(error, PermissionError)
    return True
