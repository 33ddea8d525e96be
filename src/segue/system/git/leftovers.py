"""What a killed git leaves behind: lock files that keep every later git out."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

_NAMES = (
    "index",
    "HEAD",
    "ORIG_HEAD",
    "MERGE_HEAD",
    "config",
    "packed-refs",
    "segue-index",
    "objects/maintenance",
)
_CLOCK = 2.0
"""Seconds by which the clocks of a file system and of a database may differ."""


async def clear_locks(root: Path, folders: tuple[Path, ...], since: float, patience: float) -> None:
    """Remove locks of killed gits in these git folders that were made since an instant.

    A git that is alive in the work tree is waited for; a lock that may be somebody else's stays.
    """
    if not any(_locks(folders, since)):
        return
    if await wait_for_git(root, patience):
        for lock in list(_locks(folders, since)):
            lock.unlink(missing_ok=True)


async def wait_for_git(root: Path, patience: float, command: str = "") -> bool:
    """Wait for gits that work in the work tree and may have outlived who began them; False: not all ended."""
    import psutil

    def may_work_here(process: psutil.Process) -> bool:
        try:
            if not process.name().startswith("git") or command not in ["", *process.cmdline()]:
                return False
            return Path(process.cwd()).is_relative_to(root)
        except psutil.AccessDenied:
            return not command
        except (psutil.Error, OSError):
            return False

    deadline = time.monotonic() + patience
    for process in list(filter(may_work_here, psutil.process_iter())):
        with contextlib.suppress(psutil.TimeoutExpired):
            await asyncio.to_thread(process.wait, max(0.0, deadline - time.monotonic()))
            continue
        return False
    return True


def _locks(folders: tuple[Path, ...], since: float) -> Iterator[Path]:
    for folder in dict.fromkeys(folders):
        for lock in (*(folder / f"{name}.lock" for name in _NAMES), *(folder / "refs").rglob("*.lock")):
            with contextlib.suppress(OSError):
                if lock.lstat().st_mtime >= since - _CLOCK:
                    yield lock
