"""The branch of a run: finished work is merged into it, and it into what others pushed.

Neither needs a work tree, and nothing of the work is run.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, structs

from segue.domain.errors import AGAIN, NeedsHuman, WorkspaceError
from segue.domain.workspace import Merged
from segue.system.files import read_start
from segue.system.git.branches import joined_ref
from segue.system.git.folders import common_dir, find_holder, is_detached, note_ref, read_ref
from segue.system.git.index import shown
from segue.system.git.recovery import undo_killed_switch
from segue.system.git.remotes import PushRemote
from segue.system.git.repository import Repository

_log = logging.getLogger(__name__)

_PAUSE = 0.02
_GC_PATIENCE = 60.0
"""Seconds that a `git gc` is waited for: one that takes longer hardly ever prunes at once."""
_BRIEFLY = 5.0
"""Seconds to wait for a lock file that nobody seems to need."""


@asynccontextmanager
async def no_gc(common: Path) -> AsyncIterator[bool]:
    """Wait for a `git gc` that is at work, then let none begin; yield whether there was one.

    With `--prune=now` it removes whatever was unreachable when it looked, even if a branch contains that by
    now. So that two never run at once, git notes the one at work in `gc.pid`. Whoever is named there keeps
    others out; if that process is dead, the note counts for nothing.
    """
    note, waited = common / "gc.pid", False
    began = time.monotonic()
    while not (taken := _take(note)):
        if not waited:
            _log.info("waiting for a git gc in %s", common)
        waited = True
        if time.monotonic() - began > (_GC_PATIENCE if _is_held(note) else _BRIEFLY):
            break
        await asyncio.sleep(_PAUSE)
    try:
        yield waited
    finally:
        if taken:
            note.unlink(missing_ok=True)


def _take(note: Path) -> bool:
    """Write ourselves into the file as git does; False if somebody else is at work."""
    lock = note.with_name(f"{note.name}.lock")
    try:
        handle = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except OSError:
        return False
    with contextlib.ExitStack() as stack:
        stack.callback(lock.unlink, missing_ok=True)
        with os.fdopen(handle, "w") as file:
            file.write(f"{os.getpid()} {socket.gethostname()}")
        if _is_held(note):
            return False
        lock.replace(note)
    return True


def _is_held(note: Path) -> bool:
    try:
        number = int(note.read_text().split()[0])
        os.kill(number, 0)
    except (OSError, ValueError, IndexError) as error:
        return isinstance(error, PermissionError)
    return True


_PAUSES = (0.05, 0.2, 0.5, 1.0)
_LONGEST_SAYING = 4000
_ALIEN = "unrelated histories"
_SETTINGS = (
    r"^(core\.sharedrepository|commit\.gpgsign|diff\.(algorithm|renames|renamelimit)"
    r"|merge\.(conflictstyle|directoryrenames|renames|renamelimit|renormalize))$"
)
"""The settings of a repository that decide about a merge; none of them names a program."""


class Integration(Struct):
    """The branch on which the work of all tasks of a run comes together."""

    repo: Repository
    """Any work tree of the repository; its `.gitattributes` say how files are merged."""
    branch: str
    since: float = 0.0
    """When the run began, in seconds since the epoch: stale locks that are newer are removed."""
    _settings: dict[str, str] | None = None

    @property
    def ref(self) -> str:
        """The full name of the branch."""
        return f"refs/heads/{self.branch}"

    async def head(self) -> str:
        """Return the commit that the branch is at."""
        found = read_ref(self._common, self.ref) or await self.repo.branch_head(self.branch)
        if not found:
            raise WorkspaceError(
                f"Branch {self.branch}, on which this run collects its work, is missing.",
                kept=f"Its commits may still be in the repository: git -C {self.repo.root} fsck --lost-found",
                hint=f"Restore it: git -C {self.repo.root} branch {self.branch} COMMIT   then {AGAIN}",
            )
        return found

    async def contains(self, commit: str) -> bool:
        """Return whether the branch has a commit already."""
        return await self.repo.objects().is_ancestor(commit, await self.head())

    async def merge(self, ours: str, theirs: str) -> Merged:
        """Put two commits together; nothing but new objects is written, and nothing of theirs is run."""
        for _ in range(2):
            # git may be killed, or trip over a `git gc` that removes the folder it is about to write to.
            with contextlib.suppress(WorkspaceError):
                return await self._merge(ours, theirs)
        return await self._merge(ours, theirs)

    async def _merge(self, ours: str, theirs: str) -> Merged:
        settings = await self._read_settings()
        # In a git folder of its own, git knows no merge drivers: one that attributes name is not run.
        chosen = [f"{name}={value}" for name, value in settings.items() if not name.startswith("commit.")]
        options = [part for setting in chosen for part in ("-c", setting)]
        command = ("merge-tree", "--write-tree", "-z", "--name-only", "--messages")
        done = await self.repo.objects().git(
            *options,
            *command,
            ours,
            theirs,
            codes=(0, 1, 128, 129),
            variables={
                "GIT_WORK_TREE": str(self.repo.root),
                "GIT_ATTR_SOURCE": ours,  # git 2.41 and later; earlier ones look into the work tree
                "GIT_NO_LAZY_FETCH": "1",
                "GIT_ALLOW_PROTOCOL": "none",
                "LC_ALL": "C",
            },
            where=self.repo.root,
            attributes=read_start(self._common / "info" / "attributes"),
        )
        if done.out and done.exit_code < 128:
            found = parse_merge(done.out, clean=done.exit_code == 0)
            return structs.replace(found, ours=ours, theirs=theirs)
        said = done.said
        if _ALIEN in said:
            return Merged(said="The two have no history in common.", ours=ours, theirs=theirs)
        if done.exit_code == 129:  # it does not know the option
            raise WorkspaceError(
                "This git cannot merge without a work tree.",
                kept="Nothing was changed.",
                hint="Install git 2.38 or later, or work on one task at a time: jobs = 1",
            )
        raise WorkspaceError(f"git merge-tree failed: {said}", kept="Nothing was changed.")

    async def join(self, ours: str, theirs: str, tree: str, message: str) -> str:
        """Commit a merged tree and return the commit; no branch is moved."""
        signing = (await self._read_settings()).get("commit.gpgsign", "").lower()
        sign = ["-S"] if signing not in ("", "false", "no", "off", "0") else []
        arguments = ("commit-tree", *sign, "-p", ours, "-p", theirs, "-F", "-", tree)
        identity = await self.repo.identity_options()
        async with no_gc(self._common) as collected:
            # Until now no commit held the tree, and it may be gone. Merging makes it again.
            if collected:
                await self.merge(ours, theirs)
            try:
                made = await self.repo.git(*identity, *arguments, stdin=message.encode())
            except WorkspaceError:
                if (await self.merge(ours, theirs)).tree != tree:
                    raise
                made = await self.repo.git(*identity, *arguments, stdin=message.encode())
            await self.repo.git("update-ref", joined_ref(self.branch), made.strip())
        return made.strip()

    async def advance(self, old: str, new: str) -> bool:
        """Move the branch from one commit to another; False if it is not where it was any more."""
        for pause in (*_PAUSES, None):
            try:
                await self._advance(old, new)
                note_ref(self._common, self.ref, new)
                return True
            except WorkspaceError:
                # Two sessions may have come to the same merge; what git says is in the user's language.
                now = await self.head()
                if now != old:
                    return now == new
                if pause is None:
                    raise
            if self.since:
                await self.repo.recover(self.since)
            await asyncio.sleep(pause)
        return False

    async def _advance(self, old: str, new: str) -> None:
        where = find_holder(self._common, self.ref)
        if where is None:
            await self.repo.git("update-ref", "-m", "segue: merge", self.ref, new, old)
            return
        # Somebody has switched to the branch: the files there have to follow it, or they would undo the work.
        holder = await Repository.open(where)
        if await self.head() != old:
            raise WorkspaceError(f"Branch {self.branch} has moved.")
        try:
            await self._move(holder, new, "merge", "--quiet", "--ff-only", "--no-overwrite-ignore")
        except WorkspaceError as error:
            raise WorkspaceError(
                f"Branch {self.branch} is checked out in {where}, where it cannot move. {error.message}",
                kept="Your files there are as you left them.",
                hint=f"Commit what you changed there, or switch to another branch, then {AGAIN}",
            ) from error

    async def sync(self, tree: Repository) -> None:
        """Bring a work tree to the head of the branch, detached from it; what is uncommitted stays."""
        head = await self.head()
        if not is_detached(tree.git_dir) or await tree.head() != head:
            await self._move(tree, head, "checkout", "--quiet", "--no-overwrite-ignore", "--detach")

    async def _move(self, tree: Repository, target: str, *arguments: str) -> None:
        """Let git bring a work tree to a commit; what a git that was killed on its way has left is undone."""
        try:
            await tree.git(*arguments, target)
        except WorkspaceError:
            await tree.recover(self.since)
            now = await tree.snapshot()
            if now.dirty and not await undo_killed_switch(tree, now, target):
                raise
            await tree.git(*arguments, target)

    @property
    def _common(self) -> Path:
        return common_dir(self.repo.git_dir)

    async def _read_settings(self) -> dict[str, str]:
        if self._settings is None:
            self._settings = await self.repo.settings(_SETTINGS)
        return self._settings


async def catch_up(home: Repository, own: Integration, onto: str) -> Merged | None:
    """Merge what was committed to the user's branch since the run began; None if there is nothing.

    When that is on the branch of the run too, the user's branch can be forwarded to it, to exactly what was
    checked there.
    """
    theirs = await home.branch_head(onto) if onto else ""
    ours = await own.head()
    if not theirs or await home.objects().is_ancestor(theirs, ours):
        return None
    return await own.merge(ours, theirs)


class _Message(NamedTuple):
    """Something that git says about a merge."""

    paths: list[bytes]
    kind: bytes
    text: bytes


def parse_merge(raw: bytes, clean: bool) -> Merged:
    """Read what `git merge-tree --write-tree -z --name-only --messages` prints."""
    fields = raw.removesuffix(b"\0").split(b"\0")
    tree = fields.pop(0).decode()
    end = fields.index(b"") if b"" in fields else len(fields)
    messages = list(_read_messages(fields[end + 1 :]))
    said = "\n".join(shown(one.text).strip() for one in messages if one.kind != b"Auto-merging")
    # Where a renamed file meets a new one, git may leave conflict markers in a merge that it calls clean.
    named = [path for one in messages if one.kind.startswith(b"CONFLICT") for path in one.paths]
    if clean and not named:
        return Merged(tree, said=said[:_LONGEST_SAYING])
    conflicts = tuple(sorted(set(map(shown, fields[:end] or named))))
    return Merged("", conflicts, said[:_LONGEST_SAYING], marked=tree)


def _read_messages(fields: list[bytes]) -> Iterator[_Message]:
    """Yield the messages; each is: the number of paths, the paths, a kind, the text."""
    while len(fields) > 2 and fields[0].isdigit():
        count = int(fields[0]) + 1
        yield _Message(
            fields[1:count], *(fields[count : count + 2] if len(fields) > count + 1 else (b"", b""))
        )
        fields = fields[count + 2 :]


_BASE_REF = "refs/segue/base"
_PUSHED = "refs/segue/pushed"


class BranchSync(Struct, frozen=True):
    """The branch of a run, checked out in its work tree, and the remote that has it too."""

    remote: PushRemote
    own: Integration
    base: str
    """The branch of the remote that the work is for."""

    async def take_over(self) -> int:
        """Take over commits that others pushed to the branch; return how many there were."""
        theirs = await self.remote.fetch(self.own.branch, _PUSHED)
        ours = await self.own.head()
        objects = self.own.repo.objects()
        if not theirs or await objects.is_ancestor(theirs, ours):
            return 0
        if not await objects.is_ancestor(ours, theirs):
            raise NeedsHuman(
                f"Branch {self.own.branch} and the one on {self.remote.name} have diverged.",
                kept="Nothing was changed.",
                hint=f"Merge {self.remote.name}'s into yours, then try again",
            )
        count = int(await self.own.repo.git("rev-list", "--count", f"{ours}..{theirs}"))
        await self.own.advance(ours, theirs)
        return count

    async def merge_base(self) -> tuple[str, ...]:
        """Merge the branch that the work is for, with conflict markers where both changed the same lines.

        Returns the files with markers; doing it twice is the same as doing it once.
        """
        theirs = await self.remote.fetch(self.base, _BASE_REF)
        ours = await self.own.head()
        if theirs and not await self.own.repo.objects().is_ancestor(theirs, ours):
            merged = await self.own.merge(ours, theirs)
            tree = merged.tree or merged.marked
            if not tree:
                raise WorkspaceError(
                    f"{self.base} cannot be merged: {merged.said}", kept="Nothing was changed."
                )
            joined = await self.own.join(ours, theirs, tree, f"Merge {self.base} into {self.own.branch}\n")
            await self.own.advance(ours, joined)
        return await self.find_markers()

    async def find_markers(self) -> tuple[str, ...]:
        """Return the files in which the branch has conflict markers that its base does not have."""
        theirs = await self.remote.fetch(self.base, _BASE_REF)
        return await self.own.repo.objects().conflicted(theirs, await self.own.head())
