"""Work trees that Segue makes beside the user's; that of a run is on its own branch."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from msgspec import Struct

from segue.domain.delivery import Delivered
from segue.domain.errors import AGAIN, Locked, NeedsHuman, WorkspaceError
from segue.domain.run import Run
from segue.system.files import exclusive, private_folder, read_start
from segue.system.git.folders import common_dir
from segue.system.git.index import MADE_AGAIN, find_gitlinks, has_work
from segue.system.git.recovery import is_half_made, undo_killed_merge, wait_for_git
from segue.system.git.repository import Repository
from segue.system.lane import has_content
from segue.system.lock import RepoLock

_PATIENCE = 300.0
_STATUS = (
    *("status", "--porcelain", "-z", "--ignored=matching", "--untracked-files=all"),
    "--ignore-submodules=dirty",
)


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
        if not self.folder.is_dir() or not self.known.is_dir() or is_half_made(self.known):
            return None
        if _read_place(self.known) != Path(os.path.realpath(self.folder)):
            return None  # another one of this name
        link, said = self.folder / ".git", os.fsencode(f"gitdir: {self.known}\n")
        if link.is_symlink() or link.is_dir() or read_start(link) != said:
            if link.is_dir() and not link.is_symlink():
                raise WorkspaceError(
                    f"{link} is a repository of its own, so the work tree cannot be used.",
                    kept="Nothing was changed.",
                    hint=f"Move it away, then {AGAIN}",
                )
            link.unlink(missing_ok=True)
            link.write_bytes(said)
        return Repository(Path(os.path.realpath(self.folder)), self.known)

    async def add(self, start: str, branch: str = "") -> Repository:
        """Make the work tree at a commit, on a branch or on none, as `git worktree add` does.

        What git still knows of one that was deleted by hand is replaced.
        """
        commit = (await self.home.git("rev-parse", "--verify", "--quiet", f"{start}^{{commit}}")).strip()
        if self.folder.exists() and any(self.folder.iterdir()):
            raise WorkspaceError(f"{self.folder} is not empty.", kept="Nothing was changed.")
        shutil.rmtree(self.known, ignore_errors=True)
        self.known.mkdir(parents=True)
        # Until it is finished, it is known as half-made.
        (self.known / "locked").write_text("initializing")
        self.folder.mkdir(parents=True, exist_ok=True)
        real = Path(os.path.realpath(self.folder))
        (self.known / "gitdir").write_bytes(os.fsencode(f"{real}/.git\n"))
        head = f"ref: refs/heads/{branch}\n" if branch else f"{commit}\n"
        (self.known / "HEAD").write_bytes(os.fsencode(head))
        (self.known / "commondir").write_text("../..\n")
        (real / ".git").write_bytes(os.fsencode(f"gitdir: {self.known}\n"))
        for name in ("info/sparse-checkout", "config.worktree"):
            if data := read_start(self.home.git_dir / name):
                (self.known / name).parent.mkdir(exist_ok=True)
                (self.known / name).write_bytes(data)
        made = Repository(real, self.known)
        if (own := self.known / "config.worktree").exists():
            for setting in ("core.worktree", "core.bare"):  # these are about the other work tree
                with contextlib.suppress(WorkspaceError):
                    await made.git("config", "--file", str(own), "--unset-all", setting)
        await made.git("reset", "--quiet", "--hard")
        (self.known / "locked").unlink()
        return made

    async def clear(self) -> None:
        """Remove what is left of a `git worktree` that was killed before it was finished."""
        shutil.rmtree(self._trash, ignore_errors=True)
        if self.known.is_dir() and is_half_made(self.known):
            # The one that makes it works in the repository, the one that checks it out in the folder.
            await wait_for_git([self.home.root], _PATIENCE, "worktree")
            await wait_for_git([self.folder], _PATIENCE)
            if is_half_made(self.known):
                shutil.rmtree(self.folder, ignore_errors=True)
                shutil.rmtree(self.known, ignore_errors=True)

    async def remove(self) -> None:
        """Remove the work tree, or what is left of it; its commits are kept."""
        if (self.known / "locked").exists():
            raise WorkspaceError(f"Somebody has locked the work tree {self.folder}.")
        if self.folder.exists():
            # First it is out of the way as a whole: half a work tree could be neither used nor made again.
            shutil.rmtree(self._trash, ignore_errors=True)
            self.folder.rename(self._trash)
        try:
            await self.home.git("worktree", "prune")
        except WorkspaceError:  # somebody killed it, half-way perhaps
            await self.home.git("worktree", "prune")
        shutil.rmtree(self._trash, ignore_errors=True)

    async def uncommittable(self, tree: Repository) -> list[str]:
        """Return ignored files that nobody could make again: all but caches, builds and dependencies."""
        said = await tree.git(*_STATUS)
        ignored = [entry[3:] for entry in said.split("\0") if entry.startswith("!! ")]
        kept = (path for path in ignored if not MADE_AGAIN.search(path))
        # The sandbox leaves empty files where it shows those of the user.
        lost = [path for path in kept if (self.folder / path).is_symlink() or has_content(self.folder / path)]
        links = [path for path in ignored if (self.folder / path / ".git").exists()]
        return list(dict.fromkeys([*links, *lost]))

    @property
    def _trash(self) -> Path:
        return self.folder.with_name(f".{self.folder.name}.removed")


def _read_place(known: Path) -> Path:
    """Return the folder of a work tree, as git knows it."""
    return Path(os.path.realpath(os.fsdecode(read_start(known / "gitdir")).strip())).parent


_LOCK_TRIES = 50
_LOCK_PAUSE = 0.1
"""Another run may be merging at this moment; a run that works there for hours is not waited for."""


Deliver = Callable[[], Awaitable[Delivered]]
"""Delivers the branch of a run; raises WorkspaceError if that could not be tried."""


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
        await self.tree.clear()
        await self.home.recover(self.since)
        found = await self.opened()
        if found is not None:
            return found, ""
        if await self.home.has_branch(self.branch):
            made = await self.tree.add(self.branch, self.branch)
            said = f"The work tree {self.folder} was missing; it was created again from branch {self.branch}."
            return made, said if begun else self._announce("")
        if begun:
            raise WorkspaceError(
                f"Branch {self.branch}, on which run {self.run} works, is missing.",
                kept=f"Its commits may still be in the repository: git -C {self.home.root} fsck --lost-found",
                hint=f"Restore it: git -C {self.home.root} branch {self.branch} COMMIT   "
                f"then: segue resume {self.run}",
            )
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
            return await self._finish(deliver, release)
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

    async def _finish(self, deliver: Deliver, release: Callable[[], None]) -> WorktreeResult:
        left = await self._unfinished()
        if left:
            words = f"The work is in {self.folder}: {left}. The rest is on branch {self.branch}."
            return WorktreeResult(words, merged=False, removed=False)
        delivered = await deliver()
        release()
        await self.remove()
        return WorktreeResult(delivered.words, delivered.merged, removed=True)

    async def _unfinished(self) -> str:
        """Say what is in the work tree but not on its branch; empty if nothing is."""
        found = await self.opened()
        if found is None:
            return "it cannot be opened"
        found.own = self.home.own
        now = await found.snapshot()
        inside = [path for path in find_gitlinks(found.git_dir) if has_work(found.root, path)]
        if now.dirty or inside:
            return f"it has uncommitted changes ({list_files([*now.files, *inside])})"
        if kept := await self.tree.uncommittable(found):
            return f"no commit contains {list_files(kept)}"
        if now.head != (await self.home.git("rev-parse", f"refs/heads/{self.branch}")).strip():
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
            return await self._try_to_merge(onto, forward)
        finally:
            lock.release()

    async def _try_to_merge(self, onto: str, forward: bool) -> str:
        """Merge, and once more if that fails: git may have been killed. A failure leaves nothing behind."""
        said, how = "", ["--ff-only"] if forward else ["--no-edit"]
        for _ in range(2):
            await self._undo_merge()
            refused = await self._why_not_mergeable(onto, forward)
            if refused:
                return refused
            try:
                await self.home.git("merge", "--quiet", *how, "--no-overwrite-ignore", self.branch)
                return ""
            except WorkspaceError as error:
                said = error.message.rstrip(".")
            # There was no merge under way before, so this one is ours.
            if (self.home.git_dir / "MERGE_HEAD").exists():
                await self.home.git("merge", "--abort")
                return "there are conflicts, so the merge was undone"
        await self._undo_merge()
        return said

    async def _undo_merge(self) -> None:
        await self.home.recover(self.since)
        await undo_killed_merge(self.home, self.branch)

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
            return f"your work tree has uncommitted changes ({list_files(now.files)})"
        tip = await self.home.branch_head(self.branch) if forward else ""
        if tip and not await self.home.objects().is_ancestor(now.head, tip):
            return f"{onto} has commits that the run has not checked its work with"
        return ""

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

    def _announce(self, start: str) -> str:
        said = f"The run works in {self.folder} on branch {self.branch}."
        if start in ("", "HEAD"):
            return said
        return (
            f"{said} It starts from {start}, which is not merged yet; to start from HEAD, delete that branch."
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


def no_commit(home: Repository) -> WorkspaceError:
    """Return the error for a repository without commits, from which no work tree can be made."""
    return WorkspaceError(
        f"{home.root} has no commit yet, so it cannot have another work tree.",
        kept="Nothing was started.",
        hint="Make a first commit, or leave --jobs and --worktree out",
    )


def list_files(files: Sequence[str]) -> str:
    """Return the first few of these files, for a sentence."""
    return ", ".join(files[:5]) + (" …" if len(files) > 5 else "")
