"""Make a repository usable after git was killed: locks, half-made work trees, a merge or switch halfway."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from segue.domain.errors import WorkspaceError

if TYPE_CHECKING:
    import psutil

    from segue.domain.workspace import Snapshot
    from segue.system.git.objects import Objects, PathChange
    from segue.system.git.repository import Repository

_log = logging.getLogger(__name__)

_NAMES = (
    *("index", "HEAD", "ORIG_HEAD", "MERGE_HEAD", "config", "packed-refs", "gc.pid", "objects/maintenance"),
)
_GITS = ("git", "git.exe")
_CLOCK = 2.0
"""Seconds by which the clocks of a file system and of a database may differ."""


async def clear_stale_locks(root: Path, git_dir: Path, common: Path, since: float, patience: float) -> None:
    """Remove locks and half-made work trees that killed git processes have left since an instant.

    Git processes that run in one of the repository's work trees are waited for. What they or later ones make
    is not touched: only what was there before and has not changed since. Where a git process of another user
    runs cannot be seen; it is not waited for, and files of that user stay.
    """
    before = _find(git_dir, common, since)
    if not before or not await wait_for_git((root, common, *_work_trees(common)), patience):
        return
    others = _owners_of_unseen()
    for path, seen in _find(git_dir, common, since).items():
        if before.get(path) != seen or seen.owner in others:
            continue
        _log.info("removing %s, which a killed git left", path)
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
    """Wait for git processes in these folders, which may have outlived their parent; False: not all ended."""
    import psutil

    def may_work_here(process: psutil.Process) -> bool:
        try:
            name, words = process.name(), process.cmdline()
            if (name not in _GITS and not name.startswith("git-")) or "fsmonitor--daemon" in words:
                return False
            if command not in ["", *words]:
                return False
            place = Path(process.cwd())
            return any(place.is_relative_to(folder) for folder in folders)
        except psutil.AccessDenied:
            return not command and _owner(process) == _own_id()
        except (psutil.Error, OSError):
            return False

    deadline = time.monotonic() + patience
    for process in list(filter(may_work_here, psutil.process_iter())):
        _log.info("waiting for git, pid %d", process.pid)
        with contextlib.suppress(psutil.TimeoutExpired):
            await asyncio.to_thread(process.wait, max(0.0, deadline - time.monotonic()))
            continue
        return False
    return True


def _owners_of_unseen() -> set[int | None]:
    """Return the other users with git processes whose folder cannot be seen."""
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


class _StaleFile(NamedTuple):
    """What tells something from another file of the same name, and whose it is."""

    inode: int
    changed: int
    owner: int


def _find(git_dir: Path, common: Path, since: float) -> dict[Path, _StaleFile]:
    """Return what a killed git may have left."""
    found = {}
    for folder in dict.fromkeys((git_dir, common)):
        locks = [*(folder / f"{name}.lock" for name in _NAMES), *(folder / "refs").rglob("*.lock")]
        half_made = [known for known in (folder / "worktrees").glob("*") if is_half_made(known)]
        for path in (*locks, *half_made):
            with contextlib.suppress(OSError):
                now = path.lstat()
                if now.st_mtime >= since - _CLOCK or _is_ours(folder, path):
                    found[path] = _StaleFile(now.st_ino, now.st_mtime_ns, now.st_uid)
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


_STATE = ("MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "AUTO_MERGE")


async def undo_killed_merge(home: Repository, branch: str) -> None:
    """Put back what a killed merge of the branch has changed in the work tree, if nothing is lost by that."""
    now = await home.snapshot()
    tip = (await home.git("rev-parse", f"refs/heads/{branch}")).strip()
    merging = home.git_dir / "MERGE_HEAD"
    if not now.dirty or (merging.exists() and merging.read_text().strip() != tip):
        return
    if await undo_killed_switch(home, now, await _merge_trees(home, now.head, tip)):
        for name in _STATE:
            (home.git_dir / name).unlink(missing_ok=True)


async def undo_killed_switch(home: Repository, now: Snapshot, target: str) -> bool:
    """Put back what git had already changed when it was killed on its way to the target, a commit or tree.

    Each changed file must be what it is there; one may be missing or be the beginning of that. A person's
    edits differ, and nothing is put back then.
    """
    objects = home.objects()
    expected = {one.path: one for one in await objects.changes(now.head, target)}
    changed = await objects.changes(now.head, await home.tree(now))
    if any(change.path not in expected for change in changed):
        return False
    torn = [change for change in changed if change.blob_after != expected[change.path].blob_after]
    if len(torn) > 1 or not all([await _is_part(home, objects, one, expected[one.path]) for one in torn]):
        return False
    await _restore(home, list(expected.values()))
    return True


async def _merge_trees(home: Repository, head: str, tip: str) -> str:
    """Return what the merge leads to; where this git cannot say that, what the branch contains."""
    if await home.objects().is_ancestor(head, tip):
        return tip
    try:
        return (await home.git("merge-tree", "--write-tree", head, tip)).split()[0]
    except WorkspaceError:
        return tip


async def _is_part(home: Repository, objects: Objects, found: PathChange, expected: PathChange) -> bool:
    if found.removed or expected.removed:
        return found.removed
    whole = (await objects.git("cat-file", "blob", expected.blob_after)).out
    file = home.root / found.path
    return file.is_file() and not file.is_symlink() and whole.startswith(file.read_bytes())


async def _restore(home: Repository, changes: list[PathChange]) -> None:
    """Give these paths the content they have in HEAD."""
    listed = ("--pathspec-from-file=-", "--pathspec-file-nul")
    paths = [os.fsencode(one.path) for one in changes]
    kept = [os.fsencode(one.path) for one in changes if not one.added]
    await home.git("--literal-pathspecs", "reset", "--quiet", *listed, stdin=b"\0".join(paths))
    if kept:
        await home.git("--literal-pathspecs", "checkout", "--quiet", *listed, stdin=b"\0".join(kept))
    for change in changes:
        if change.added:
            (home.root / change.path).unlink(missing_ok=True)
