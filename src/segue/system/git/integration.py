"""The branch of a run: finished work is merged into it without a work tree."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, structs

from segue.domain.errors import AGAIN, NeedsHuman, WorkspaceError
from segue.domain.workspace import Merged
from segue.system.files import read_start
from segue.system.git.branches import joined_ref
from segue.system.git.folders import common_dir, read_head
from segue.system.git.index import shown
from segue.system.git.remotes import PushRemote
from segue.system.git.repository import Repository
from segue.system.git.worktree import missing_branch

_PAUSES = (0.05, 0.2, 0.5, 1.0)
_LONGEST_SAYING = 4000
_ALIEN = "unrelated histories"
_SETTINGS = (
    r"^(diff\.(algorithm|renames|renamelimit)"
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

    @property
    def ref(self) -> str:
        """The full name of the branch."""
        return f"refs/heads/{self.branch}"

    async def head(self) -> str:
        """Return the commit that the branch is at."""
        found = await self.repo.branch_head(self.branch)
        if not found:
            raise missing_branch(self.repo, self.branch, AGAIN)
        return found

    async def contains(self, commit: str) -> bool:
        """Return whether the branch has a commit already."""
        return await self.repo.objects().is_ancestor(commit, await self.head())

    async def merge(self, ours: str, theirs: str) -> Merged:
        """Put two commits together; nothing but new objects is written, and nothing of theirs is run."""
        try:
            return await self._merge(ours, theirs)
        except WorkspaceError:  # git may have been killed
            return await self._merge(ours, theirs)

    async def _merge(self, ours: str, theirs: str) -> Merged:
        # In a git folder of its own, git knows no merge drivers: one that attributes name is not run.
        chosen = [f"{name}={value}" for name, value in (await self.repo.settings(_SETTINGS)).items()]
        options = [part for setting in chosen for part in ("-c", setting)]
        done = await self.repo.objects().git(
            *options,
            *("merge-tree", "--write-tree", "-z", "--name-only", "--messages", ours, theirs),
            codes=(0, 1, 128, 129),
            variables={
                "GIT_WORK_TREE": str(self.repo.root),
                "GIT_ATTR_SOURCE": ours,  # git 2.41 and later; earlier ones look into the work tree
                "LC_ALL": "C",
            },
            where=self.repo.root,
            attributes=read_start(common_dir(self.repo.git_dir) / "info" / "attributes"),
        )
        if done.out and done.exit_code < 128:
            found = parse_merge(done.out, clean=done.exit_code == 0)
            return structs.replace(found, ours=ours, theirs=theirs)
        if _ALIEN in done.said:
            return Merged(said="The two have no history in common.", ours=ours, theirs=theirs)
        if done.exit_code == 129:  # it does not know the option
            raise WorkspaceError(
                "This git cannot merge without a work tree.",
                kept="Nothing was changed.",
                hint="Install git 2.38 or later, or work on one task at a time: jobs = 1",
            )
        raise WorkspaceError(f"git merge-tree failed: {done.said}", kept="Nothing was changed.")

    async def join(self, ours: str, theirs: str, tree: str, message: str) -> str:
        """Commit a merged tree and return the commit; no branch is moved."""
        try:
            made = await self.repo.commit_tree(tree, (ours, theirs), message)
        except WorkspaceError:  # until now no commit held the tree: a `git gc` may have removed it
            if (await self.merge(ours, theirs)).tree != tree:
                raise
            made = await self.repo.commit_tree(tree, (ours, theirs), message)
        await self.repo.git("update-ref", joined_ref(self.branch), made)
        return made

    async def advance(self, old: str, new: str) -> bool:
        """Move the branch from one commit to another; False if it is not where it was any more."""
        for pause in (*_PAUSES, None):
            try:
                self._refuse_checked_out()
                await self.repo.git("update-ref", "-m", "segue: merge", self.ref, new, old)
                return True
            except WorkspaceError:
                # Two sessions may have come to the same merge; what git says is in the user's language.
                now = await self.head()
                if now != old:
                    return now == new
                if pause is None:
                    raise
            await self.repo.recover(self.since)
            await asyncio.sleep(pause)
        return False

    def _refuse_checked_out(self) -> None:
        """Refuse to move a branch that somebody has switched to: the files there would undo the work."""
        common = common_dir(self.repo.git_dir)
        for git_dir in (common, *(common / "worktrees").glob("*")):
            if read_start(git_dir / "HEAD").strip() != f"ref: {self.ref}".encode():
                continue
            link = Path(os.fsdecode(read_start(git_dir / "gitdir")).strip())
            folder = link.parent if git_dir != common else common.parent
            if (folder / ".git").exists():
                raise WorkspaceError(
                    f"Branch {self.branch} is checked out in {folder}, where it cannot move.",
                    kept="Your files there are as you left them.",
                    hint=f"Switch to another branch there, then {AGAIN}",
                )

    async def sync(self, tree: Repository) -> None:
        """Bring a work tree of Segue's to the head of the branch, detached from it; uncommitted files stay.

        Where git was killed on its way, or something is in the way, that is kept under a ref first.
        """
        head = await self.head()
        if read_head(tree.place) == ("", head):
            return
        checkout = ("checkout", "--quiet", "--no-overwrite-ignore", "--detach")
        try:
            await tree.git(*checkout, head)
        except WorkspaceError:
            await tree.recover(self.since)
            now = await tree.snapshot()
            if now.dirty:
                left = await tree.commit_tree(await tree.tree(now), (now.head,), "What was in the way")
                await tree.git("update-ref", f"refs/segue/kept/{self.branch}/{left[:10]}", left)
            await tree.git(*checkout, "--force", head)


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
        kind, text = fields[count : count + 2] if len(fields) > count + 1 else (b"", b"")
        yield _Message(fields[1:count], kind, text)
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
        await self._forward(theirs)
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
            await self._forward(joined)
        return await self.find_markers()

    async def _forward(self, commit: str) -> None:
        await self.own.repo.git("merge", "--quiet", "--ff-only", "--no-overwrite-ignore", commit)

    async def find_markers(self) -> tuple[str, ...]:
        """Return the files in which the branch has conflict markers that its base does not have."""
        theirs = await self.remote.fetch(self.base, _BASE_REF)
        return await self.own.repo.objects().conflicted(theirs, await self.own.head())
