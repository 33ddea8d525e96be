"""What a killed git leaves behind: locks and half-made work trees that stop every later git."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import psutil

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
_CLOCK = 2.0
"""Seconds by which the clocks of a file system and of a database may differ."""


async def clear_leftovers(root: Path, git_dir: Path, common: Path, since: float, patience: float) -> None:
    """Remove what gits that were killed since an instant have left in the git folders of a work tree.

    Gits that are alive in one of the repository's work trees are waited for. What they or later ones make
    is not touched: only what was there before and has not changed since. Where somebody else's git works
    cannot be seen; nobody waits for it, and what belongs to whoever started it stays.
    """
    before = _find(git_dir, common, since)
    if not before or not await wait_for_git((root, common, *_work_trees(common)), patience):
        return
    others = _owners_of_unseen()
    for path, seen in _find(git_dir, common, since).items():
        if before.get(path) != seen or seen.owner in others:
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def is_half_made(known: Path) -> bool:
    """Return whether git was killed while it made a work tree; `known` is the folder where it knows that."""
    with contextlib.suppress(OSError):
        if (known / "locked").read_text().strip() == "initializing":  # until it is finished
            return True
    try:
        return not all((known / name).read_bytes() for name in ("gitdir", "commondir", "HEAD"))
    except OSError:
        return True


async def wait_for_git(folders: Collection[Path], patience: float, command: str = "") -> bool:
    """Wait for gits that work in these folders and may have outlived who began them; False: not all ended."""
    import psutil

    def may_work_here(process: psutil.Process) -> bool:
        try:
            if not process.name().startswith("git") or command not in ["", *process.cmdline()]:
                return False
            place = Path(process.cwd())
            return any(place.is_relative_to(folder) for folder in folders)
        except psutil.AccessDenied:
            return not command and _owner(process) == _own_id()
        except (psutil.Error, OSError):
            return False

    deadline = time.monotonic() + patience
    for process in list(filter(may_work_here, psutil.process_iter())):
        with contextlib.suppress(psutil.TimeoutExpired):
            await asyncio.to_thread(process.wait, max(0.0, deadline - time.monotonic()))
            continue
        return False
    return True


def _owners_of_unseen() -> set[int | None]:
    """Return who else has gits of which it cannot be seen where they work."""
    import psutil

    found = set()
    for process in psutil.process_iter():
        try:
            if process.name().startswith("git"):
                process.cwd()
        except psutil.AccessDenied:
            found.add(_owner(process))
        except (psutil.Error, OSError):
            continue
    return found - {_own_id()}


def _owner(process: psutil.Process) -> int | None:
    """Return whose a process is; None where that cannot be told."""
    if sys.platform == "win32":
        return None
    import psutil

    try:
        owner: int = process.uids().effective
        return owner
    except psutil.Error:
        return None


def _own_id() -> int:
    if sys.platform == "win32":
        return -1
    return os.geteuid()


class _Leftover(NamedTuple):
    """What tells something from another file of the same name, and whose it is."""

    inode: int
    changed: int
    owner: int


def _find(git_dir: Path, common: Path, since: float) -> dict[Path, _Leftover]:
    """Return what a killed git may have left."""
    found = {}
    for folder in dict.fromkeys((git_dir, common)):
        locks = [*(folder / f"{name}.lock" for name in _NAMES), *(folder / "refs").rglob("*.lock")]
        half_made = [known for known in (folder / "worktrees").glob("*") if is_half_made(known)]
        for path in (*locks, *half_made):
            with contextlib.suppress(OSError):
                now = path.lstat()
                if now.st_mtime >= since - _CLOCK or _is_ours(folder, path):
                    found[path] = _Leftover(now.st_ino, now.st_mtime_ns, now.st_uid)
    return found


def _is_ours(folder: Path, lock: Path) -> bool:
    """Return whether nobody but Segue makes such a lock, whenever it was made."""
    return lock.is_relative_to(folder / "refs" / "segue")


def _work_trees(common: Path) -> Iterator[Path]:
    """Yield the folders of all work trees of a repository."""
    yield common.parent
    for known in (common / "worktrees").glob("*/gitdir"):
        with contextlib.suppress(OSError):
            yield Path(known.read_text().strip()).parent
