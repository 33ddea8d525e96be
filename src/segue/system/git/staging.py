"""A second index beside git's own: looking at the work changes nothing, and a commit need not look again."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct

from segue.domain.errors import WorkspaceError
from segue.domain.workspace import Snapshot
from segue.system.files import signature
from segue.system.process.capture import Captured, programs_started

NAME = "segue-index"
_LARGEST = 32 * 1024**2
"""Bytes of an index that is kept for the commit; a larger one is made again."""


class StagedIndex(Struct, frozen=True):
    """An index with everything that was in the work tree at one moment."""

    now: Snapshot
    data: bytes
    mode: int
    times: tuple[int, int]
    own: object
    """The state of git's own index then."""
    files: tuple[object, ...]
    """The state of the changed files then."""
    programs: int
    """How many programs had been started by then: any of them may change files."""

    def install(self, git_dir: Path, root: Path) -> bool:
        """Make it git's own index; False if anything may have changed since, or another git is at work."""
        index, lock = git_dir / "index", git_dir / "index.lock"
        if self.programs != programs_started() or self.files != _look(root, self.now):
            return False
        try:
            handle = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except OSError:
            return False
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(self.data)
            lock.chmod(self.mode)
            # With its time: git looks again at files that were changed in the moment when the index was.
            os.utime(lock, ns=self.times)
            if signature(index) == self.own:
                lock.replace(index)
                return True
        except OSError:
            pass  # git says it better than we could
        lock.unlink(missing_ok=True)
        return False


async def stage(
    git_dir: Path, root: Path, now: Snapshot, git: Callable[..., Awaitable[Captured]], *paths: str
) -> tuple[str, StagedIndex | None]:
    """Return everything that is in the work tree as a git tree, and the index that a commit would need."""
    index, staged = git_dir / "index", git_dir / NAME
    staged.unlink(missing_ok=True)
    extra = {"GIT_INDEX_FILE": str(staged)}
    own, programs, files = signature(index), programs_started(), _look(root, now)
    try:
        with contextlib.suppress(FileNotFoundError):
            # With its time, for the same reason.
            shutil.copy2(index, staged)
        await git("add", "--all", *paths, extra=extra)
        tree = (await git("write-tree", extra=extra)).out.decode().strip()
        made = staged.stat()
        if made.st_size > _LARGEST:
            return tree, None
        times = (made.st_atime_ns, made.st_mtime_ns)
        return tree, StagedIndex(now, staged.read_bytes(), made.st_mode & 0o777, times, own, files, programs)
    except OSError as error:
        raise WorkspaceError(f"{index} cannot be copied: {error.strerror}") from error
    finally:  # git may have been killed
        for path in (staged, staged.with_name(f"{NAME}.lock")):
            path.unlink(missing_ok=True)


def _look(root: Path, now: Snapshot) -> tuple[object, ...]:
    return tuple(signature(root / path) for path in now.files)
