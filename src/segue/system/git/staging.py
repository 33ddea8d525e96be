"""A second index beside git's own: looking at the work changes nothing, and a commit need not look again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from msgspec import Struct

from segue.domain.errors import WorkspaceError
from segue.domain.workspace import Snapshot
from segue.system.files import brief_folder, signature
from segue.system.process.capture import Captured, programs_started

_LARGEST = 32 * 1024**2
"""Bytes of an index that is kept for the commit; a larger one is made again."""


class StagedIndex(Struct, frozen=True):
    """An index with everything that was in the work tree at one moment."""

    now: Snapshot
    tree: str
    data: bytes
    """The file; empty if it is too large to be kept."""
    mode: int
    times: tuple[int, int]
    own: object
    """The state of git's own index then."""
    files: tuple[object, ...]
    """The state of the changed files then."""
    programs: int
    """How many programs had been started by then: any of them may change files."""

    def is_current(self, root: Path) -> bool:
        """Return whether nothing can have changed since: no program ran, and the files are the same."""
        return self.programs == programs_started() and self.files == _look(root, self.now)

    def install(self, git_dir: Path, root: Path) -> bool:
        """Make it git's own index; False if anything may have changed since, or another git is at work."""
        index, lock = git_dir / "index", git_dir / "index.lock"
        if not self.data or not self.is_current(root):
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


Git = Callable[..., Awaitable[Captured]]
Add = Callable[[Mapping[str, str]], Awaitable[bool]]
"""Adds everything to the index that the variables name."""
Look = Callable[[Path, Awaitable[object]], Awaitable[str]]
"""Looks at an index, once it is complete."""


async def stage(
    git_dir: Path,
    root: Path,
    now: Snapshot,
    git: Git,
    add: Add,
    look: Look | None = None,
) -> tuple[StagedIndex, str]:
    """Add everything that is in the work tree to a second index; also return what `look` finds there."""
    index = git_dir / "index"
    own, programs, files = signature(index), programs_started(), _look(root, now)
    try:
        with brief_folder(git_dir) as folder:
            staged = folder / "index"
            with contextlib.suppress(FileNotFoundError):
                # With its time, for the same reason.
                shutil.copy2(index, staged)
            tree, found = await _make_tree(staged, git, add, look or _see_nothing)
            made = staged.stat()
            times = (made.st_atime_ns, made.st_mtime_ns)
            data = staged.read_bytes() if made.st_size <= _LARGEST else b""
    except OSError as error:
        raise WorkspaceError(f"{index} cannot be copied: {error.strerror}") from error
    return StagedIndex(now, tree, data, made.st_mode & 0o777, times, own, files, programs), found


async def _make_tree(staged: Path, git: Git, add: Add, look: Look) -> tuple[str, str]:
    """Add everything, then make a tree while somebody looks: two gits take as long as one."""
    extra, added = {"GIT_INDEX_FILE": str(staged)}, asyncio.Event()
    looking = asyncio.ensure_future(look(staged, added.wait()))
    try:
        await add(extra)
        added.set()
        await asyncio.sleep(0)  # the look takes longer, so it begins first
        tree = (await git("write-tree", extra=extra)).out.decode().strip()
        return tree, await looking
    finally:
        looking.cancel()
        await asyncio.wait({looking})


async def _see_nothing(_index: Path, complete: Awaitable[object]) -> str:
    await complete
    return ""


def _look(root: Path, now: Snapshot) -> tuple[object, ...]:
    return tuple(signature(root / path) for path in now.files)
