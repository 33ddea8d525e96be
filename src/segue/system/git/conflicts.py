"""Brings the branch of a run up to date: with what others pushed to it, and with the branch it is for."""

from __future__ import annotations

from msgspec import Struct

from segue.domain.errors import NeedsHuman, WorkspaceError
from segue.system.git.merging import Integration
from segue.system.git.pushing import PushRemote

_BASE = "refs/segue/base"
_PUSHED = "refs/segue/pushed"


class Upkeep(Struct, frozen=True):
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
        theirs = await self.remote.fetch(self.base, _BASE)
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
        theirs = await self.remote.fetch(self.base, _BASE)
        return await self.own.repo.objects().conflicted(theirs, await self.own.head())
