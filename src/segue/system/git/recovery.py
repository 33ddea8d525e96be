"""Make a repository usable after git was killed: wait for gits at work, then remove old locks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Collection
from pathlib import Path

_log = logging.getLogger(__name__)

_NAMES = (
    "index",
    "HEAD",
    "ORIG_HEAD",
    "MERGE_HEAD",
    "config",
    "packed-refs",
    "gc.pid",
    "objects/maintenance",
)
_GITS = ("git", "git.exe")
_CLOCK = 2.0
"""Seconds by which the clocks of a file system and of a database may differ."""


async def clear_stale_locks(root: Path, git_dir: Path, common: Path, since: float, patience: float) -> None:
    """Remove locks that killed git processes have left since an instant, in seconds since the epoch.

    Git processes in the repository are waited for. What they or later ones make is not touched: only what was
    there before and has not changed since.
    """
    before = _find(git_dir, common, since)
    if not before or not await wait_for_git((root, common, git_dir), patience):
        return
    for path, seen in _find(git_dir, common, since).items():
        if before.get(path) == seen:
            _log.info("removing %s, which a killed git left", path)
            path.unlink(missing_ok=True)


async def wait_for_git(folders: Collection[Path], patience: float, command: str = "") -> bool:
    """Wait for git processes in these folders, which may have outlived their parent; False: not all ended."""
    import psutil

    def may_work_here(process: psutil.Process) -> bool:
        try:
            words = process.cmdline() if process.name() in _GITS else []
            # git's own file system monitor runs for days.
            if not words or "fsmonitor--daemon" in words or command not in ["", *words]:
                return False
            place = Path(process.cwd())
        except (psutil.Error, OSError):
            return False
        return any(place.is_relative_to(folder) for folder in folders)

    deadline = time.monotonic() + patience
    for process in list(filter(may_work_here, psutil.process_iter())):
        _log.info("waiting for git, pid %d", process.pid)
        try:
            await asyncio.to_thread(process.wait, max(0.0, deadline - time.monotonic()))
        except psutil.TimeoutExpired:
            return False
    return True


def _find(git_dir: Path, common: Path, since: float) -> dict[Path, tuple[int, int]]:
    """Return the locks there are, each with what tells it from another one of its name."""
    found = {}
    for folder in dict.fromkeys((git_dir, common)):
        for path in (*(folder / f"{name}.lock" for name in _NAMES), *(folder / "refs").rglob("*.lock")):
            with contextlib.suppress(OSError):
                now = path.lstat()
                # Nobody but Segue makes those of its own refs.
                if now.st_mtime >= since - _CLOCK or path.is_relative_to(folder / "refs" / "segue"):
                    found[path] = now.st_ino, now.st_mtime_ns
    return found
