"""Where the tasks of a lane are worked on: in a work tree of its own, or on the remote."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from segue.domain.workspace import Snapshot
from segue.system.git.branches import RemoteBranches
from segue.system.git.lanes import LaneTrees
from segue.system.git.repository import Repository


class LaneTree(Repository, kw_only=True):
    """The work tree of one lane."""

    trees: LaneTrees
    tell: Callable[[str], Awaitable[None]]
    """Gets what was found there and where it is kept."""
    furnish: Callable[[Repository], Awaitable[None]] | None = None
    """Gives it what git does not have, before a task begins."""

    async def start(self, commit: str) -> Snapshot:
        """Begin at a commit; what is still there of another attempt is kept elsewhere."""
        said = await self.trees.prepare(self, commit)
        if said:
            await self.tell(said)
        if self.furnish is not None:
            await self.furnish(self)
        return await self.begin("", None)

    async def lay(self, tree: str) -> None:
        """Put the files of a tree there, uncommitted."""
        await self.git("restore", "--quiet", f"--source={tree}", "--worktree", "--", ":/")

    async def keep(self, name: str) -> None:
        """See to it that git does not forget the commit it is at, which no branch contains."""
        await self.trees.keep(self, name)

    async def set_aside(self, message: str) -> str:  # noqa: ARG002 - a stash would be one for all lanes
        """Move all uncommitted changes out of the work tree and return where they are kept."""
        return await self.trees.prepare(self, await self.head())


class RemoteLane(Struct, frozen=True):
    """A lane of cloud agents, who work on branches of their own."""

    branches: RemoteBranches

    async def start(self, commit: str) -> Snapshot:  # noqa: ARG002 - the branch may have moved on since
        """Push what all lanes have done so far, so that an agent can start there."""
        return await self.branches.begin("", None)

    async def lay(self, tree: str) -> None:
        """There is no work tree."""
        raise NotImplementedError

    async def keep(self, name: str) -> None:
        """Do nothing: what cloud agents have done stays on their branches."""
