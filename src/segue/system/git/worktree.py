"""Work trees that Segue makes beside the user's; that of a run is on its own branch."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from segue.domain.amounts import list_some
from segue.domain.delivery import Delivered
from segue.domain.errors import AGAIN, Locked, NeedsHuman, WorkspaceError
from segue.domain.run import Run
from segue.system.files import exclusive, private_folder, read_start
from segue.system.git.folders import common_dir
from segue.system.git.outside import TIMEOUT
from segue.system.git.recovery import wait_for_git
from segue.system.git.repository import Repository
from segue.system.lock import RepoLock

_NAMED = 5
Deliver = Callable[[], Awaitable[Delivered]]
"""Delivers the branch of a run; raises WorkspaceError if that could not be tried."""


class LinkedTree(Struct, frozen=True):
    """A folder of Segue's that git knows as a work tree of the user's repository."""

    home: Repository
    """The user's work tree."""
    folder: Path

    @property
    def known(self) -> Path:
        """Where git keeps what it knows of the work tree."""
        return common_dir(self.home.git_dir) / "worktrees" / self.folder.name

    async def opened(self) -> Repository | None:
        """Return the work tree, if it exists and is this one; what its `.git` says does not count."""
        real, known = Path(os.path.realpath(self.folder)), Path(os.path.realpath(self.known))
        is_half_made = read_start(known / "locked").strip() == b"initializing"
        if not real.is_dir() or is_half_made or not (known / "HEAD").exists():
            return None
        if os.fsdecode(read_start(known / "gitdir")).strip() != f"{real}/.git":
            return None  # another one of this name
        link, pointer = real / ".git", os.fsencode(f"gitdir: {known}\n")
        if link.is_dir() and not link.is_symlink():
            raise WorkspaceError(
                f"{link} is a repository of its own, so the work tree cannot be used.",
                kept="Nothing was changed.",
                hint=f"Move it away, then {AGAIN}",
            )
        if link.is_symlink() or read_start(link) != pointer:
            link.unlink(missing_ok=True)
            link.write_bytes(pointer)
        return Repository(real, known)

    async def add(self, start: str, branch: str = "") -> Repository:
        """Make the work tree at a commit, on a branch or on none. What is in its place is kept beside it."""
        await wait_for_git([self.home.root, self.folder], TIMEOUT, "worktree")
        (self.known / "locked").unlink(missing_ok=True)
        if self.folder.is_dir() and any(self.folder.iterdir()):
            if (self.known / "index").exists() or not self.known.exists():
                self.folder.rename(find_free(self.folder.with_name(f"{self.folder.name}-kept")))
            else:  # half-made: nobody has worked there
                shutil.rmtree(self.folder)
        shutil.rmtree(self.known, ignore_errors=True)
        where = (str(self.folder), branch) if branch else ("--detach", str(self.folder), start)
        private_folder(self.folder.parent)
        await self.home.git("worktree", "add", "--force", "--quiet", *where)
        found = await self.opened()
        if found is None:
            raise WorkspaceError(
                f"git made {self.folder} otherwise than it was asked to.",
                kept="Nothing was changed.",
                hint=f"Look with: git -C {self.home.root} worktree list   then {AGAIN}",
            )
        return found

    async def remove(self) -> None:
        """Remove the work tree, or what is left of it; its commits are kept."""
        # First it is out of the way as a whole: half a work tree could be neither used nor made again.
        trash = self.folder.with_name(f".{self.folder.name}.removed")
        shutil.rmtree(trash, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            self.folder.rename(trash)
        shutil.rmtree(self.known, ignore_errors=True)
        shutil.rmtree(trash, ignore_errors=True)


class WorktreeResult(Struct, frozen=True):
    """What happened to a work tree when its run was done."""

    words: str
    merged: bool
    removed: bool


class Worktree(Struct, frozen=True):
    """The work tree of one run, beside the user's own."""

    home: Repository
    """The user's work tree."""
    folder: Path
    branch: str
    run: str
    since: float = 0.0
    """When the run began, in seconds since the epoch."""

    @classmethod
    def of(cls, home: Repository, run: Run) -> Worktree | None:
        """Return the work tree of a run; None if it works in the user's."""
        if run.spec.worktree is None:
            return None
        return cls(home, Path(run.place), branch_of(run.id), run.id, run.created / 1000)

    async def enter(self, begun: bool, starts: Sequence[str | None] = ()) -> tuple[Repository, str]:
        """Open the work tree, creating it if need be; also return a notice for the user.

        A run that was started before needs its branch. A new one starts from the first of `starts` that
        contains more than HEAD, else from HEAD.
        """
        with exclusive(private_folder(self.folder.parent) / f"{self.folder.name}.lock"):
            return await self._enter(begun, starts)

    async def _enter(self, begun: bool, starts: Sequence[str | None]) -> tuple[Repository, str]:
        await self.home.recover(self.since)
        found = await self.opened()
        if found is not None:
            return found, ""
        if await self.home.has_branch(self.branch):
            made = await self.tree.add(self.branch, self.branch)
            text = f"The work tree {self.folder} was missing; it was created again from branch {self.branch}."
            return made, text if begun else self._announce("HEAD")
        if begun:
            raise missing_branch(self.home, self.branch, f"segue resume {self.run}")
        start = await self._start(starts)
        await self.home.git("branch", "--quiet", "--no-track", self.branch, start)
        return await self.tree.add(self.branch, self.branch), self._announce(start)

    @property
    def tree(self) -> LinkedTree:
        """The folder, as one of the work trees of the user's repository."""
        return LinkedTree(self.home, self.folder)

    async def opened(self) -> Repository | None:
        """Return the work tree, if it exists and is this one."""
        return await self.tree.opened()

    async def finish(
        self, deliver: Deliver, release: Callable[[], None], keeps: bool = False
    ) -> WorktreeResult:
        """Finish a run: deliver its branch, then remove the work tree; `keeps` where it merely stays.

        Raises NeedsHuman if the delivery could not be tried: a run is not done before.
        """
        try:
            if left := await self._find_unfinished():
                words = f"The work is in {self.folder}: {left}. The rest is on branch {self.branch}."
                return WorktreeResult(words, merged=False, removed=False)
            delivered = await deliver()
            release()
            await self.remove()
            return WorktreeResult(delivered.words, delivered.merged, removed=True)
        except WorkspaceError as error:
            words = f"The work is on branch {self.branch}, in {self.folder}. {error.message}"
            if not keeps and await unmerged(self.home, self.branch):
                hint = f"Fix that, then deliver it with: segue resume {self.run}"
                raise NeedsHuman(words, kept="Everything is committed.", hint=hint) from error
            return WorktreeResult(words, merged=False, removed=False)

    async def remove(self) -> None:
        """Remove the work tree, or what is left of it; its branch is kept."""
        await self.tree.remove()

    async def forget(self) -> None:
        """Delete the branch, if it was merged."""
        with contextlib.suppress(WorkspaceError):
            if not await unmerged(self.home, self.branch):
                await self.home.git("branch", "--quiet", "--delete", "--force", self.branch)

    async def _find_unfinished(self) -> str:
        """Say what is in the work tree but not on its branch; empty if nothing is."""
        tree = await self.opened()
        if tree is None:
            return "it cannot be opened"
        tree.own = self.home.own
        now = await tree.snapshot()
        if now.dirty:
            return f"it has uncommitted changes ({list_some([*now.files, *now.inside], _NAMED)})"
        if now.head != await self.home.branch_head(self.branch):
            return f"it is on {now.branch or 'no branch'}, not on its own branch"
        return ""

    async def merge_into(self, onto: str, forward: bool = False) -> str:
        """Merge into the branch the user is on; return why that failed, or an empty text.

        With `forward`, the user's branch becomes exactly what the run has checked, or stays as it is.
        """
        lock = await self._lock_home()
        if lock is None:
            return "another run works in your work tree"
        try:
            await self.home.recover(self.since)
            return await self._why_not_mergeable(onto, forward) or await self._merge(forward)
        finally:
            lock.release()

    async def _merge(self, forward: bool) -> str:
        how = "--ff-only" if forward else "--no-edit"
        command = ("merge", "--quiet", how, "--no-overwrite-ignore", self.branch)
        identity = await self.home.identity_options()
        try:
            await self.home.git(*identity, *command)
        except WorkspaceError as error:
            # The work tree was clean before, so what is there now is this merge's.
            if (self.home.git_dir / "MERGE_HEAD").exists():
                await self.home.git("merge", "--abort")
                return "there are conflicts, so the merge was undone"
            return error.message.rstrip(".")
        return ""

    async def _why_not_mergeable(self, onto: str, forward: bool) -> str:
        """Return why nothing can be merged into the user's work tree now."""
        if not onto:
            return "you were on no branch when the run began"
        now = await self.home.snapshot()
        if now.branch != onto:
            return f"you were on {onto} and are on {now.branch or 'no branch'} now"
        if (self.home.git_dir / "MERGE_HEAD").exists():
            return "you are in the middle of a merge"
        if now.dirty:
            return f"your work tree has uncommitted changes ({list_some(now.files, _NAMED)})"
        tip = await self.home.branch_head(self.branch) if forward else ""
        if tip and not await self.home.objects().is_ancestor(now.head, tip):
            return f"{onto} has commits that the run has not checked its work with"
        return ""

    async def _lock_home(self) -> RepoLock | None:
        """Take the lock of the user's work tree; a run that works there for hours is not waited for."""
        for _ in range(50):
            with contextlib.suppress(Locked):
                return RepoLock.take(self.home.git_dir, self.run)
            await asyncio.sleep(0.1)
        return None

    async def _start(self, starts: Sequence[str | None]) -> str:
        if not await self.home.head():
            raise no_commit(self.home)
        for name in filter(None, starts):
            if await unmerged(self.home, name):
                return name
        return "HEAD"

    def _announce(self, start: str) -> str:
        text = f"The run works in {self.folder} on branch {self.branch}."
        if start == "HEAD":
            return text
        return (
            f"{text} It starts from {start}, which is not merged yet; to start from HEAD, delete that branch."
        )


async def workplace(home: Repository, run: Run, begun: bool) -> Repository:
    """Return where a run works: in its own work tree, or else in the user's."""
    tree = Worktree.of(home, run)
    return home if tree is None else (await tree.enter(begun))[0]


async def unmerged(home: Repository, branch: str) -> bool:
    """Return whether there is such a branch and it contains more than HEAD."""
    if not await home.has_branch(branch):
        return False
    return bool(int(await home.git("rev-list", "--count", f"HEAD..refs/heads/{branch}")))


def branch_of(run_id: str) -> str:
    """Return the branch of a run that has its own work tree."""
    return f"segue/{run_id}"


def missing_branch(home: Repository, branch: str, again: str) -> WorkspaceError:
    """Return the error for a run whose branch is gone."""
    return WorkspaceError(
        f"Branch {branch}, on which this run collects its work, is missing.",
        kept=f"Its commits may still be in the repository: git -C {home.root} fsck --lost-found",
        hint=f"Restore it: git -C {home.root} branch {branch} COMMIT   then: {again}",
    )


def no_commit(home: Repository) -> WorkspaceError:
    """Return the error for a repository without commits, from which no work tree can be made."""
    return WorkspaceError(
        f"{home.root} has no commit yet, so it cannot have another work tree.",
        kept="Nothing was started.",
        hint="Make a first commit, or leave --jobs and --worktree out",
    )


def find_free(path: Path) -> Path:
    """Return this path, or one like it that does not exist."""
    number, free = 0, path
    while os.path.lexists(free):
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free


def delete_files(root: Path, paths: Iterable[str]) -> None:
    """Delete these files of a work tree, and the folders that are empty without them."""
    real = root.resolve()
    for path in paths:
        place = real / path
        if not place.parent.resolve().is_relative_to(real):
            continue  # a folder is a link by now
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
            place.unlink()
        with contextlib.suppress(OSError):
            for folder in list(place.relative_to(real).parents)[:-1]:
                (real / folder).rmdir()
