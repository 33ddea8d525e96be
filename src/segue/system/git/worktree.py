"""A run's own work tree in Segue's folder, on a branch of its own: made, found again, merged, removed."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from segue.domain.errors import Locked, WorkspaceError
from segue.domain.run import Run
from segue.system.files import exclusive, private_folder
from segue.system.git.repository import Repository
from segue.system.lock import RepoLock

_LOCK_TRIES = 50
_LOCK_PAUSE = 0.1
"""Another run may be merging at the same moment; one that works there for hours is not waited for."""


@dataclass(frozen=True, slots=True)
class WorktreeResult:
    """What became of a work tree when its run was done."""

    words: str
    merged: bool
    removed: bool


@dataclass(frozen=True, slots=True)
class Worktree:
    """The work tree of one run, beside the user's own."""

    home: Repository
    """The user's work tree."""
    folder: Path
    branch: str
    run: str

    @classmethod
    def of(cls, home: Repository, run: Run) -> Worktree | None:
        """The work tree of a run; None when it works where the user stands."""
        if run.spec.worktree is None:
            return None
        return cls(home, Path(run.place), branch_of(run.id), run.id)

    async def enter(self, begun: bool, starts: Sequence[str | None] = ()) -> tuple[Repository, str]:
        """Open it, and make it if it is not there; with what a person should know about that.

        A run that has begun needs its branch. A new one starts from the first of `starts` that holds
        more than HEAD, else from HEAD.
        """
        with exclusive(private_folder(self.folder.parent) / f"{self.folder.name}.lock"):
            return await self._enter(begun, starts)

    async def _enter(self, begun: bool, starts: Sequence[str | None]) -> tuple[Repository, str]:
        await self._clear()
        found = await self.opened()
        if found is not None:
            return found, ""
        if await self.home.has_branch(self.branch):
            # Forced, because git still knows a work tree that was deleted by hand.
            await self._add("--force", "--force", str(self.folder), self.branch)
            said = f"The work tree {self.folder} was gone: it was made again from branch {self.branch}."
            return await self._made(), said if begun else self._begins("")
        if begun:
            raise WorkspaceError(
                f"Branch {self.branch}, on which run {self.run} works, is gone.",
                kept=f"Its commits may still be in the repository: git -C {self.home.root} fsck --lost-found",
                hint=f"Bring it back: git -C {self.home.root} branch {self.branch} COMMIT   "
                f"then: segue resume {self.run}",
            )
        start = await self._start(starts)
        await self._add("-b", self.branch, str(self.folder), start)
        return await self._made(), self._begins(start)

    async def opened(self) -> Repository | None:
        """The work tree, if it is there and is this one."""
        if not self.folder.is_dir():
            return None
        try:
            found = await Repository.open(self.folder)
        except WorkspaceError:
            return None
        # Without a .git of its own, git would find a repository further up: perhaps the user's.
        here = found.root == Path(os.path.realpath(self.folder))
        return found if here and await _shared(found) == await _shared(self.home) else None

    async def finish(self, onto: str, merge: bool, release: Callable[[], None]) -> WorktreeResult:
        """The run is done: merge its branch if that is wanted and possible; remove what is not needed."""
        try:
            return await self._finish(onto, merge, release)
        except WorkspaceError as error:
            words = f"The work is on branch {self.branch}, in {self.folder}. {error.message}"
            return WorktreeResult(words, merged=False, removed=False)

    async def remove(self) -> None:
        """Remove the folder and what git knows of it; the branch stays."""
        await self.home.git("worktree", "remove", "--force", str(self.folder))

    async def forget(self) -> None:
        """Delete the branch, once it was merged and nobody will look for it any more."""
        with contextlib.suppress(WorkspaceError):
            if not await unmerged(self.home, self.branch):
                await self.home.git("branch", "--quiet", "--delete", "--force", self.branch)

    async def _finish(self, onto: str, merge: bool, release: Callable[[], None]) -> WorktreeResult:
        left = await self._unfinished()
        if left:
            words = f"The work is in {self.folder}: {left}. Branch {self.branch} holds the rest."
            return WorktreeResult(words, merged=False, removed=False)
        refused = await self._merge(onto) if merge else ""
        release()
        await self.remove()
        if merge and not refused:
            return WorktreeResult(f"The work was merged into {onto}.", merged=True, removed=True)
        why = f" It was not merged: {refused}." if refused else ""
        words = f"The work is on branch {self.branch}.{why} Merge it with: git merge {self.branch}"
        return WorktreeResult(words, merged=False, removed=True)

    async def _unfinished(self) -> str:
        """What is in the work tree but not on its branch, in words."""
        found = await self.opened()
        if found is None:
            return "it cannot be opened"
        found.own = self.home.own
        now = await found.snapshot()
        if now.dirty:
            return f"it has uncommitted changes ({_listed(now.files)})"
        if now.head != (await self.home.git("rev-parse", f"refs/heads/{self.branch}")).strip():
            return f"it is on {now.branch or 'no branch'}, not on its own branch"
        return ""

    async def _merge(self, onto: str) -> str:
        """Bring the branch into the one the user is on; empty when that was done, else why it was not."""
        lock = await self._lock_home()
        if lock is None:
            return "another run works in your work tree"
        try:
            refused = await self._unfit(onto)
            if refused:
                return refused
            await self.home.git("merge", "--quiet", "--no-edit", "--no-overwrite-ignore", self.branch)
        except WorkspaceError as error:
            # There was no merge under way before, so this one is ours.
            if (self.home.git_dir / "MERGE_HEAD").exists():
                await self.home.git("merge", "--abort")
                return "there are conflicts, so the merge was taken back"
            return error.message.rstrip(".")
        finally:
            lock.release()
        return ""

    async def _unfit(self, onto: str) -> str:
        """Why nothing can be merged into the user's work tree as it is now."""
        if not onto:
            return "you were on no branch when the run began"
        now = await self.home.snapshot()
        if now.branch != onto:
            return f"you were on {onto} and are on {now.branch or 'no branch'} now"
        if (self.home.git_dir / "MERGE_HEAD").exists():
            return "you are in the middle of a merge"
        return f"your work tree has uncommitted changes ({_listed(now.files)})" if now.dirty else ""

    async def _lock_home(self) -> RepoLock | None:
        for _ in range(_LOCK_TRIES):
            with contextlib.suppress(Locked):
                return RepoLock.take(self.home.git_dir, self.run)
            await asyncio.sleep(_LOCK_PAUSE)
        return None

    async def _start(self, starts: Sequence[str | None]) -> str:
        if not await self.home.head():
            raise no_commit(self.home)
        for name in filter(None, starts):
            if await unmerged(self.home, name):
                return name
        return "HEAD"

    async def _add(self, *arguments: str) -> None:
        await self.home.git("worktree", "add", "--quiet", *arguments)

    async def _clear(self) -> None:
        """Remove what a `git worktree add` has left that was killed before its files were all there."""
        locked = (await _shared(self.home)) / "worktrees" / self.folder.name / "locked"
        with contextlib.suppress(OSError, WorkspaceError):
            if locked.read_text().strip() == "initializing":
                await self.home.git("worktree", "remove", "--force", "--force", str(self.folder))

    async def _made(self) -> Repository:
        found = await self.opened()
        if found is None:
            raise WorkspaceError(f"git made the work tree {self.folder}, but it cannot be used.")
        return found

    def _begins(self, start: str) -> str:
        said = f"The run works in {self.folder} on branch {self.branch}."
        if start in ("", "HEAD"):
            return said
        return f"{said} It starts from {start}, which is not merged yet; to start from HEAD, delete that one."


async def workplace(home: Repository, run: Run, begun: bool) -> Repository:
    """Where a run works: its own work tree if it has one, else where the user stands."""
    tree = Worktree.of(home, run)
    return home if tree is None else (await tree.enter(begun))[0]


async def unmerged(home: Repository, branch: str) -> bool:
    """Whether there is such a branch and it holds more than HEAD."""
    if not await home.has_branch(branch):
        return False
    return bool(int(await home.git("rev-list", "--count", f"HEAD..refs/heads/{branch}")))


def branch_of(run_id: str) -> str:
    """The branch of a run with a work tree of its own."""
    return f"segue/{run_id}"


def no_commit(home: Repository) -> WorkspaceError:
    """A repository without commits has nothing that a work tree could be made from."""
    return WorkspaceError(
        f"{home.root} has no commit yet, so no work tree can be made from it.",
        kept="Nothing was started.",
        hint="Make a first commit, or leave --worktree out",
    )


async def _shared(repo: Repository) -> Path:
    """What all work trees of a repository have in common."""
    named = await repo.git("rev-parse", "--git-common-dir")
    return Path(os.path.realpath(repo.root / named.rstrip("\n")))


def _listed(files: Sequence[str]) -> str:
    return ", ".join(files[:5]) + (" …" if len(files) > 5 else "")
