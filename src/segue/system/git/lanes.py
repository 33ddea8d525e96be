"""The work trees of tasks that run side by side: one per lane, used for one task after the other.

Lane N of a run is the folder `RUN-lane-N`, on no branch. What a task leaves there uncommitted is never
deleted: it is kept under `refs/segue/kept/RUN/` before the next task gets the lane.
"""

from __future__ import annotations

import asyncio
import contextlib
import filecmp
import os
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from itertools import chain, count
from pathlib import Path

from segue.domain.errors import WorkspaceError
from segue.domain.workspace import Snapshot
from segue.system.beneath import Beneath
from segue.system.files import exclusive, list_folder, private_folder, read_start
from segue.system.git.index import find_gitlinks, has_work, shown
from segue.system.git.objects import PathChange
from segue.system.git.recovery import clear_stale_locks, undo_killed_switch
from segue.system.git.repository import FALLBACK_IDENTITY, Repository
from segue.system.git.worktree import LinkedTree, branch_of, list_files
from segue.system.lane import LANE_NAME, has_content

_ROUNDS = 3
_PATIENCE = 300.0
_POINTERS = (
    "MERGE_AUTOSTASH",
    "rebase-merge/autostash",
    "rebase-merge/orig-head",
    "rebase-apply/autostash",
    "rebase-apply/orig-head",
)
"""Where git keeps commits that nothing else names while something is under way."""
UNDER_WAY = ("rebase-merge", "rebase-apply", "sequencer", "BISECT_LOG", "BISECT_START", "MERGE_AUTOSTASH")


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
            return await self._open(number, start)

    async def prepare(self, lane: Repository, start: str) -> str:
        """Make a lane ready for another task, at the commit `start`; say what was found and where it is kept.

        Ignored files stay, so that dependencies and caches serve the next task.
        """
        # Nothing that is here belongs to Segue, so that nothing is left out of what is kept.
        tree = Repository(lane.root, lane.git_dir)
        await self._recover(tree)
        said = self._move_modules_out(tree)
        now = await tree.snapshot()
        if now.dirty and not now.links:
            await undo_killed_switch(tree, now, start)
        under_way = any((tree.git_dir / name).exists() for name in UNDER_WAY)
        if now.dirty or now.branch or now.head != start or under_way:
            said += await self._keep_commits(tree)
            said += await self._empty(tree) if now.dirty else []
            self._end_what_is_under_way(tree)
            said += await self._switch(tree, start)
        if (await lane.arrive((), now)).dirty:  # the other commit may ignore less
            said += await self._empty(tree)
            await lane.arrive((), now)
        return " ".join(said)

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
            said = [words for number in self._numbers() for words in await self._close(number)]
        return said + [f"{path} has files of a lane that git no longer knew." for path in self._set_aside()]

    async def _open(self, number: int, start: str) -> Repository:
        tree = LinkedTree(self._home, self.path(number))
        found = await self._find(tree)
        if found is None:
            self._made(tree).unlink(missing_ok=True)
            found = await tree.add(start)
        self._made(tree).touch()
        return found

    async def _find(self, tree: LinkedTree) -> Repository | None:
        """Return a lane that exists; what cannot be used as one is out of the way afterwards."""
        await tree.clear()
        found = await tree.opened()
        if found is not None:
            await self._recover(found)
        elif tree.folder.exists():
            if self._made(tree).exists():  # somebody may have worked there
                tree.folder.rename(find_free(tree.folder.with_name(f"{tree.folder.name}-kept")))
            else:
                shutil.rmtree(tree.folder, ignore_errors=True)
        return found

    async def _recover(self, lane: Repository) -> None:
        """Remove the stale locks of a lane; git processes in other lanes are not waited for."""
        await clear_stale_locks(lane.root, lane.git_dir, lane.git_dir, self._since, _PATIENCE)

    async def _close(self, number: int) -> list[str]:
        tree = LinkedTree(self._home, self.path(number))
        found = await self._find(tree)
        said: list[str] = []
        try:
            if found is not None:
                said += self._move_modules_out(found)
                said += await self._keep_commits(found)
                said += await self._keep_changes(found, await found.snapshot())
                if left := await self._uncommittable(tree, found):
                    return [*said, f"{tree.folder} was not removed: no commit contains {list_files(left)}."]
            await tree.remove()
        except WorkspaceError as error:
            return [*said, f"{tree.folder} was not removed. {error.message}"]
        for beside in self._folder.glob(f"{tree.folder.name}.*"):
            _delete(beside)
        return said

    async def _keep_commits(self, lane: Repository) -> list[str]:
        """Keep commits of a lane that neither the run's branch nor a ref of ours contains."""
        head = await lane.head()
        places = (f"refs/heads/{branch_of(self._run)}", f"refs/segue/kept/{self._run}")
        said = []
        if not await lane.git("for-each-ref", "--count=1", "--contains", head, *places):
            said.append(f"Commits that were not merged are kept as {await self._refer(lane, head, head)}.")
        for name in _POINTERS:
            commit = read_start(lane.git_dir / name).decode("ascii", "replace").strip()
            with contextlib.suppress(WorkspaceError):  # what is not a commit cannot be lost
                if commit:
                    said.append(
                        f"What git had put aside is kept as {await self._refer(lane, commit, commit)}."
                    )
        return said

    async def _keep_changes(self, lane: Repository, now: Snapshot) -> list[str]:
        """Keep what is uncommitted in a lane."""
        return (await self._save(lane, now))[0] if now.dirty else []

    async def _save(self, lane: Repository, now: Snapshot) -> tuple[list[str], tuple[PathChange, ...]]:
        said = self._move_out(lane, (*now.links, *lane.heavy))  # a commit would hold nothing of them
        tree = await lane.tree(now)
        changes = await lane.objects().changes(now.head, tree)
        if changes:
            message = f"Keep what was uncommitted in {lane.root.name}"
            who = FALLBACK_IDENTITY
            arguments = (*who, "commit-tree", tree, "-p", now.head, "-m", message)
            # Named after the tree: repeated after a kill, this is the same ref.
            ref = await self._refer(lane, (await lane.git(*arguments)).strip(), tree)
            files = list_files([change.path for change in changes])
            said.append(f"Uncommitted changes ({files}) are kept as {ref}.")
        return said, changes

    async def _empty(self, lane: Repository) -> list[str]:
        """Put the files of a lane back to its commit, after keeping what they were."""
        said: list[str] = []
        for turn in range(_ROUNDS):
            now = await lane.snapshot()
            if not now.dirty:
                return said
            if turn:  # repositories inside of it: git neither commits nor changes what is in there
                said += self._move_out(lane, [path for path in now.files if (lane.root / path).is_dir()])
            words, changes = await self._save(lane, now)
            said += words
            # Only what was kept just now: with other ignore rules, git would also delete what was not.
            await asyncio.to_thread(delete_files, lane.root, [one.path for one in changes if one.added])
            await lane.git("reset", "--quiet", "--hard", "HEAD")
        raise WorkspaceError(
            f"The lane {lane.root} cannot be made ready for another task: git still sees changes in it.",
            kept="Nothing was deleted.",
            hint=f"Look with: git -C {lane.root} status   and commit or move away what is there.",
        )

    async def _switch(self, lane: Repository, start: str) -> list[str]:
        switch = ("checkout", "--quiet", "--detach", "--no-overwrite-ignore", start)
        try:
            await lane.git(*switch)
            return []
        except WorkspaceError:
            changes = await lane.objects().changes(await lane.head(), start)
            found = list(dict.fromkeys(_in_the_way(lane.root, [one.path for one in changes if one.added])))
            if not found:
                raise
        said = self._move_out(lane, found)
        await lane.git(*switch)
        return said

    async def _uncommittable(self, tree: LinkedTree, lane: Repository) -> list[str]:
        """Return ignored files that exist nowhere else."""
        return [
            path
            for path in await tree.uncommittable(lane)
            if not await asyncio.to_thread(_is_same, lane.root / path, self._home.root / path)
        ]

    async def _refer(self, lane: Repository, commit: str, name: str) -> str:
        number = _number(lane.root.name)
        ref = f"refs/segue/kept/{self._run}/lane-{number}-{name[:10]}"
        await self._home.git("update-ref", ref, f"{commit}^{{commit}}")
        return ref

    def _move_out(self, lane: Repository, paths: Iterable[str]) -> list[str]:
        """Move what git cannot keep to a folder beside the lanes."""
        said = []
        for path in paths:
            target = find_free(private_folder(self._folder / f"{self._run}-kept") / Path(path).name)
            with Beneath(lane.root) as tree:  # a folder above it may be a link by now
                tree.move_out(path, target)
            said.append(shown(os.fsencode(f"{path} was moved to {target}.")))
        return said

    def _move_modules_out(self, lane: Repository) -> list[str]:
        """Move submodules with work in them to a folder beside the lanes: no commit here holds that."""
        paths = [path for path in find_gitlinks(lane.git_dir) if has_work(lane.root, path)]
        said = self._move_out(lane, paths)
        for path in paths:
            (lane.root / path).mkdir()
        return said

    def _end_what_is_under_way(self, lane: Repository) -> None:
        for name in UNDER_WAY:
            _delete(lane.git_dir / name)

    def _numbers(self) -> list[int]:
        """Return the lanes of which there is something, here or in git's folder."""
        known = LinkedTree(self._home, self.path(1)).known.parent
        places = [*list_folder(self._folder), *list_folder(known)]
        mine = [place.name.lstrip(".").partition(".")[0] for place in places]
        found = [LANE_NAME.fullmatch(name) for name in mine]
        return sorted({int(one["number"]) for one in found if one and one["run"] == self._run})

    def _set_aside(self) -> list[Path]:
        return sorted(self._folder.glob(f"{self._run}-lane-*-kept*"))

    def _made(self, tree: LinkedTree) -> Path:
        """Return the file that tells that a lane was finished once, so that somebody may work in it."""
        return tree.folder.with_name(f"{tree.folder.name}.made")

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


def clean_name(name: str) -> str:
    """Return a name that git accepts for a ref; in one folder, so that none is the folder of another."""
    return re.sub(r"[^\w-]+", "-", name).strip("-") or "unnamed"


def _number(name: str) -> str:
    found = LANE_NAME.fullmatch(name)
    return found["number"] if found else name


def find_free(path: Path) -> Path:
    """Return this path, or one like it that does not exist."""
    others = (path.with_name(f"{path.name}-{number}") for number in count(1))
    return next(one for one in chain((path,), others) if not os.path.lexists(one))


def delete_files(root: Path, paths: Iterable[str]) -> None:
    """Delete these files, and the folders that are empty without them."""
    with Beneath(root) as tree:  # a folder may be a link by now
        for path in paths:
            tree.delete(path)
            for folder in list(Path(path).parents)[:-1]:
                if not tree.delete_folder(str(folder)):
                    break


def _in_the_way(root: Path, paths: Iterable[str]) -> Iterable[str]:
    """Yield what is where these files should be: it is ignored, or it would have been kept before."""
    for path in paths:
        for place in (*list(Path(path).parents)[-2::-1], Path(path)):
            there = root / place
            if os.path.lexists(there) and (place == Path(path) or there.is_symlink() or not there.is_dir()):
                yield str(place)
                break


def _is_same(path: Path, original: Path) -> bool:
    """Return whether something in a lane is empty, a link, or the same as in the user's work tree."""
    if path.is_symlink() or not has_content(path):
        return True
    if path.is_dir():
        return original.is_dir() and all(_is_same(one, original / one.name) for one in path.iterdir())
    return original.is_file() and path.is_file() and filecmp.cmp(path, original, shallow=False)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
