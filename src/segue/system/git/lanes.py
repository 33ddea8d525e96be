"""The work trees of tasks that run side by side: one per lane, used for one task after the other.

Lane N of a run is the folder `RUN-lane-N`, on no branch. What a task leaves there is never deleted: it is
kept under `refs/segue/kept/RUN/` before the next task gets the lane, or the whole folder is kept beside it.
Files that git ignores go with the lane.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from segue.domain.amounts import list_some
from segue.domain.errors import WorkspaceError
from segue.domain.workspace import Snapshot
from segue.system.files import exclusive, private_folder
from segue.system.git.recovery import clear_stale_locks
from segue.system.git.repository import FALLBACK_IDENTITY, Repository
from segue.system.git.worktree import LinkedTree, branch_of, find_free
from segue.system.lane import LANE_NAME

_PATIENCE = 300.0
_NAMED = 5


class LaneTrees:
    """The lanes of one run."""

    def __init__(self, home: Repository, folder: Path, run: str, since: float = 0.0) -> None:
        """`folder` is where the work trees of all runs are; `since` is when the run began, in seconds."""
        self._home, self._folder, self._run, self._since = home, folder, run, since
        self._alone = asyncio.Lock()
        self._recovered = False

    def path(self, number: int) -> Path:
        """Return the folder of a lane."""
        return self._folder / f"{self._run}-lane-{number}"

    async def open(self, number: int, start: str) -> Repository:
        """Return the work tree of a lane as it is; one that is missing is made at the commit `start`."""
        async with self._one_at_a_time():
            tree = LinkedTree(self._home, self.path(number))
            lane = await tree.opened()
            if lane is None:
                return await tree.add(start)
            await self._recover(lane)
            return lane

    async def prepare(self, lane: Repository, start: str) -> str:
        """Make a lane ready for another task, at the commit `start`; say what was found and where it is kept.

        Ignored files stay, so that dependencies and caches serve the next task.
        """
        # Nothing that is here belongs to Segue, so that nothing is left out of what is kept.
        tree = Repository(lane.root, lane.git_dir)
        await self._recover(tree)
        now = await tree.snapshot()
        kept: list[str] = []
        if now.dirty or now.branch or now.head != start:
            kept = await self._keep_everything(tree, now)
            _end_what_is_under_way(tree)
            await tree.git("clean", "--quiet", "-ffd")
            await tree.git("checkout", "--quiet", "--force", "--detach", start)
            now = await tree.snapshot()
            if now.dirty:  # this commit ignores less, or other files than the agent did
                kept += await self._keep_everything(tree, now)
                await tree.git("clean", "--quiet", "-ffd")
        await lane.arrive((), now)
        return " ".join(kept)

    async def keep(self, lane: Repository, name: str) -> str:
        """Let a ref point at the lane's commit, so that git never deletes it; return the ref."""
        head = await lane.head()
        ref = f"refs/segue/kept/{self._run}/{clean_name(name)}"
        held = await self._home.git("for-each-ref", "--format=%(objectname) %(refname)", ref)
        if any(line != f"{head} {ref}" for line in held.splitlines()):  # an earlier try of the same task
            ref = f"{ref}-{head[:10]}"
        await self._home.git("update-ref", ref, head)
        return ref

    async def close(self) -> list[str]:
        """Remove all lanes of the run, also of a killed process; say what was kept of them, and where."""
        async with self._one_at_a_time():
            kept = [words for number in self._numbers() for words in await self._close(number)]
        beside = sorted(self._folder.glob(f"{self._run}-lane-*-kept*"))
        return kept + [f"{path} has files of a lane that git no longer knew." for path in beside]

    async def _close(self, number: int) -> list[str]:
        tree = LinkedTree(self._home, self.path(number))
        lane = await tree.opened()
        kept: list[str] = []
        try:
            if lane is not None:
                await self._recover(lane)
                kept += await self._keep_everything(lane, await lane.snapshot())
            elif tree.folder.is_dir():
                tree.folder.rename(find_free(tree.folder.with_name(f"{tree.folder.name}-kept")))
            await tree.remove()
        except WorkspaceError as error:
            return [*kept, f"{tree.folder} was not removed. {error.message}"]
        for path in self._folder.glob(f"{tree.folder.name}.*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        return kept

    async def _keep_everything(self, lane: Repository, now: Snapshot) -> list[str]:
        """Keep commits that nothing else contains, what is uncommitted, and what no commit can hold."""
        kept = []
        places = (f"refs/heads/{branch_of(self._run)}", f"refs/segue/kept/{self._run}")
        if not await lane.git("for-each-ref", "--count=1", "--contains", now.head, *places):
            kept.append(
                f"Commits that were not merged are kept as {await self._refer(lane, now.head, now.head)}."
            )
        if lost := (*now.links, *now.inside, *now.heavy):
            kept += self._copy_out(lane, lost)
        if not now.dirty:
            return kept
        tree = await lane.tree(now)
        if tree == await lane.tree_of(now.head):
            return kept
        message = f"Keep what was uncommitted in {lane.root.name}"
        words = (*FALLBACK_IDENTITY, "commit-tree", tree, "-p", now.head, "-m", message)
        # Named after the tree: repeated after a kill, this is the same ref.
        ref = await self._refer(lane, (await lane.git(*words)).strip(), tree)
        return [*kept, f"Uncommitted changes ({list_some(now.files, _NAMED)}) are kept as {ref}."]

    def _copy_out(self, lane: Repository, paths: Iterable[str]) -> list[str]:
        """Move what git cannot keep to a folder beside the lanes."""
        moved = []
        for path in paths:
            place = lane.root / path
            # A link on the way could lead anywhere.
            if place.parent.resolve().is_relative_to(lane.root.resolve()) and place.exists():
                target = find_free(private_folder(self._folder / f"{self._run}-kept") / place.name)
                place.rename(target)
                moved.append(f"{path} was moved to {target}.")
        return moved

    async def _refer(self, lane: Repository, commit: str, name: str) -> str:
        lane_name = LANE_NAME.fullmatch(lane.root.name)
        number = lane_name["number"] if lane_name else lane.root.name
        ref = f"refs/segue/kept/{self._run}/lane-{number}-{name[:10]}"
        await self._home.git("update-ref", ref, commit)
        return ref

    async def _recover(self, lane: Repository) -> None:
        """Remove the stale locks of a lane; git processes in other lanes are not waited for."""
        await clear_stale_locks(lane.root, lane.git_dir, lane.git_dir, self._since, _PATIENCE)

    def _numbers(self) -> list[int]:
        """Return the lanes of which there is something, here or in git's folder."""
        folders = (self._folder, LinkedTree(self._home, self.path(1)).known.parent)
        names = [path.name.lstrip(".").partition(".")[0] for one in folders for path in one.glob("*")]
        found = [LANE_NAME.fullmatch(name) for name in names]
        return sorted({int(one["number"]) for one in found if one and one["run"] == self._run})

    @asynccontextmanager
    async def _one_at_a_time(self) -> AsyncIterator[None]:
        private_folder(self._folder)
        async with self._alone:
            with exclusive(self._folder / f"{self._run}.lock"):
                if not self._recovered:  # what an earlier process was killed at
                    await self._home.recover(self._since)
                    self._recovered = True
                yield


class LaneTree(Repository, kw_only=True):
    """The work tree of one lane."""

    trees: LaneTrees
    tell: Callable[[str], Awaitable[None]]
    """Gets what was found there and where it is kept."""
    furnish: Callable[[Repository], Awaitable[None]] | None = None
    """Gives it what git does not have, before a task begins."""

    async def start(self, commit: str) -> Snapshot:
        """Begin at a commit; what is still there of another attempt is kept elsewhere."""
        kept = await self.trees.prepare(self, commit)
        if kept:
            await self.tell(kept)
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


def clean_name(name: str) -> str:
    """Return a name that git accepts for a ref; in one folder, so that none is the folder of another."""
    return re.sub(r"[^\w-]+", "-", name).strip("-") or "unnamed"


def _end_what_is_under_way(lane: Repository) -> None:
    """Forget a rebase or the like: the commits and files of it were kept."""
    for name in ("rebase-merge", "rebase-apply", "sequencer"):
        shutil.rmtree(lane.git_dir / name, ignore_errors=True)
    for name in ("MERGE_HEAD", "MERGE_MSG", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "BISECT_START"):
        (lane.git_dir / name).unlink(missing_ok=True)
