"""The lock of a repository, which the operating system releases when its holders are gone.

The lock is in the git folder of the work tree, so that runs with different databases exclude each other,
too. The supervisor inherits it: while an agent works, the repository stays locked even if Segue has died
(not on Windows: see `docs/guides/installing.md`).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

from msgspec import Struct

from segue.domain.errors import Locked, WorkspaceError
from segue.system import identity

_log = logging.getLogger(__name__)

_NAME = "segue.lock"
_ENDING_SECONDS = 30.0
_PAUSE = 0.02
_OPEN = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)  # a link could lead to any file


class RepoLock(Struct):
    """The lock of one repository; `held` is true once this process has it."""

    path: Path
    run: str
    fd: int
    held: bool = False

    @classmethod
    def take(cls, git_dir: Path, run: str) -> RepoLock:
        """Take the lock or raise Locked. A run may enter while only its own orphaned agent has it."""
        path = git_dir / _NAME
        try:
            lock = cls(path, run, os.open(path, _OPEN, 0o600))
        except OSError as error:
            raise _unwritable(path, error) from error
        if lock._try():
            return lock
        holder = _read_holder(path)
        if holder.get("run") == run and identity.is_dead(holder.get("owner", "")):
            return lock
        os.close(lock.fd)
        raise _locked(holder)

    @staticmethod
    def exists(git_dir: Path) -> bool:
        """Return whether somebody has or had the lock: without its file, to take it makes one."""
        return (git_dir / _NAME).exists()

    @classmethod
    async def take_after(cls, git_dir: Path, run: str) -> RepoLock:
        """Take the lock after a run has ended, whose process may be about to release it."""
        deadline = asyncio.get_running_loop().time() + _ENDING_SECONDS
        _log.debug("taking the lock of %s", git_dir)
        while True:
            try:
                return cls.take(git_dir, run)
            except Locked:
                holder = _read_holder(git_dir / _NAME)
                if holder.get("run", run) != run or asyncio.get_running_loop().time() > deadline:
                    raise
            await asyncio.sleep(_PAUSE)

    def sign(self, run: str) -> None:
        """Record which run has the lock, once the run has a name."""
        self.run = run
        if self.held:
            self._write()

    async def ensure(self) -> None:
        """Wait for the lock before a launch: an orphaned agent of this run may just be ending."""
        deadline = asyncio.get_running_loop().time() + _ENDING_SECONDS
        if not self.held:
            _log.info("waiting for the lock %s: an agent of this run may still be ending", self.path)
        while not self.held and not self._try():
            if asyncio.get_running_loop().time() > deadline:
                raise _locked(_read_holder(self.path))
            await asyncio.sleep(_PAUSE)

    def release(self) -> None:
        """Release the lock; repeated calls do nothing."""
        if self.fd < 0:
            return
        if self.held:
            os.ftruncate(self.fd, 0)
        os.close(self.fd)
        self.fd, self.held = -1, False

    def _try(self) -> bool:
        self.held = _lock_now(self.fd)
        if self.held:
            self._write()
        return self.held

    def _write(self) -> None:
        os.ftruncate(self.fd, 0)
        os.lseek(self.fd, 0, os.SEEK_SET)
        try:
            os.write(self.fd, json.dumps({"run": self.run, "owner": identity.me()}).encode())
        except OSError as error:
            raise _unwritable(self.path, error) from error


def refuse_holder(git_dir: Path) -> None:
    """Raise Locked while a living process works in the repository; takes nothing."""
    holder = _read_holder(git_dir / _NAME)
    if holder.get("run") and not identity.is_dead(holder.get("owner", "")):
        raise _locked(holder)


def _read_holder(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _lock_now(fd: int) -> bool:
    if sys.platform == "win32":
        import msvcrt

        try:
            os.lseek(fd, 1 << 20, os.SEEK_SET)
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _unwritable(path: Path, error: OSError) -> WorkspaceError:
    return WorkspaceError(
        f"Cannot write to the repository: {path}: {error.strerror or error}.",
        kept="Nothing was changed.",
        hint="Use a writable copy, or free some space if the disk is full",
    )


def _locked(holder: dict[str, Any]) -> Locked:
    run, owner = holder.get("run"), holder.get("owner", "")
    if not run:
        return Locked("Another run works in this repository.", hint="See: segue status")
    if identity.is_dead(owner):
        return Locked(
            f"An agent of run {run} still works in this repository (its Segue process is gone).",
            kept="Its work is kept by its supervisor.",
            hint=f"Continue with: segue resume {run}   or stop it with: segue stop {run}",
        )
    pid = identity.pid_of(owner) if owner.count("/") == 3 else "?"
    return Locked(
        f"Run {run} (pid {pid} on {owner.split('/')[0]}) works in this repository.",
        hint=f"Watch it with: segue logs -f {run}   or stop it with: segue stop {run}",
    )
