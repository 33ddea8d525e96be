"""Puts the work of a failed task aside and brings it back: a stash of Segue's own, under a ref.

`git stash apply REF` takes it too. Every part can be repeated after a kill, and deletes nothing that no
commit contains.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from segue.domain.workspace import Snapshot
from segue.system.beneath import Beneath
from segue.system.files import private_folder
from segue.system.git.folders import common_dir
from segue.system.git.index import find_gitlinks, has_work, shown
from segue.system.git.integration import Integration
from segue.system.git.lanes import UNDER_WAY, clean_name, delete_files, find_free
from segue.system.git.moves import UNDER_WAY as BEGUN
from segue.system.git.objects import GITLINK, PathChange
from segue.system.git.repository import FALLBACK_IDENTITY, Repository
from segue.system.git.worktree import list_files


class KeptWork(Struct, frozen=True):
    """What was put aside."""

    ref: str = ""
    """Empty: there was nothing that a commit could hold."""
    files: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    """What no commit can hold, and where it was moved to, in words."""


class WorkAside(Struct, frozen=True):
    """Keeps the work of the tasks of one run, in the work tree that they share."""

    repo: Repository
    run: str

    async def why_not(self, base: Snapshot, heads: Iterable[str]) -> str:
        """Return why the work tree cannot be put back to where a task began; empty: it can.

        `heads` are the commits that the task is known to have left.
        """
        now = await self.repo.snapshot()
        if not base.head:
            return "the repository has no commit yet"
        if now.branch != base.branch:
            return f"{now.branch or 'no branch'} is checked out, and the task began on {base.branch}"
        if now.head not in (base.head, *heads):
            return f"somebody else committed {now.head[:10]} meanwhile"
        if now.unmerged or any((self.repo.git_dir / name).exists() for name in (*UNDER_WAY, *BEGUN)):
            return "a merge or rebase is under way"
        modules = [path for path in find_gitlinks(self.repo.git_dir) if has_work(self.repo.root, path)]
        if modules:
            return f"there is work in a submodule ({list_files(modules)})"
        if base.dirty and not base.tree:
            return "it is not known what was uncommitted before the task"
        changes = (
            await self.repo.objects().changes(base.head, await self.repo.tree(now)) if not now.links else ()
        )
        moved = [one.path for one in changes if GITLINK in (one.mode_before, one.mode_after)]
        return f"a submodule was moved ({list_files(moved)})" if moved else ""

    async def keep(self, base: Snapshot, task: str) -> KeptWork:
        """Keep everything that a task has changed since its base, also commits; the work tree stays as it is.

        Only what no commit can hold is moved away: repositories inside of this one, and what is too large.
        """
        repo = self.repo
        now = await repo.snapshot()
        sizes = zip(repo.heavy, now.heavy, strict=True)
        heavy = [path for path, described in sizes if described not in base.heavy]
        moved = self._move_out(task, [*(path for path in now.links if path not in base.links), *heavy])
        if moved:
            now = await repo.snapshot()
        tree = await repo.tree(now)
        changes = await repo.objects().changes(base.tree or base.head, tree)
        if not changes and now.head == base.head:
            return KeptWork(moved=moved)
        title = f"Task {task} of run {self.run}"
        before = (
            await self._commit(base.tree, [base.head], f"{title}: before it began")
            if base.tree
            else base.head
        )
        # A stash has two parents: what was there before, and another commit; git looks for both.
        other = (
            now.head
            if now.head != base.head
            else await self._commit(await repo.tree_of(before), [before], f"{title}: nothing was staged")
        )
        made = await self._commit(tree, [before, other], f"{title}: what it left when it failed")
        ref = await self._refer(task, tree, made)
        return KeptWork(ref, tuple(shown(os.fsencode(one.path)) for one in changes), moved)

    async def clear(self, base: Snapshot, task: str, ref: str) -> None:
        """Put branch and files back to what they were before the task; its work was kept as `ref`."""
        repo = self.repo
        target = base.tree or await repo.tree_of(base.head)
        known = (await repo.git("rev-parse", "--verify", f"{ref}^{{tree}}")).strip() if ref else target
        await repo.git("reset", "--quiet", "--mixed", base.head)
        await self._lay(target, known, task)

    async def bring_back(self, base: Snapshot, task: str, ref: str) -> tuple[str, ...]:
        """Put what was kept into the work tree, uncommitted, on top of the base; return what does not fit."""
        repo = self.repo
        kept = (
            (await repo.try_git("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")).out.decode().strip()
        )
        if not kept:
            return (f"{ref} is gone",)
        # With that parent, git sees what the task changed, also where it began with uncommitted files.
        before = (await repo.git("rev-parse", "--verify", f"{kept}^1")).strip()
        tree = base.tree or await repo.tree_of(base.head)
        ours = await self._commit(tree, [base.head, before], "Another task has worked meanwhile")
        merged = await Integration(repo, "").merge(ours, kept)
        if not merged.tree:
            return merged.conflicts or (merged.said,)
        await self._lay(merged.tree, tree, task)
        return ()

    async def _lay(self, target: str, known: str, task: str) -> None:
        """Make the files those of a tree; what neither it nor the `known` tree contains is kept first."""
        repo, objects = self.repo, self.repo.objects()
        now = await repo.snapshot()
        tree = await repo.tree(now)
        changes = await objects.changes(target, tree)
        if set(changes).difference(await objects.changes(target, known)):
            left = await self._commit(tree, [now.head], f"Task {task} of run {self.run}: found beside it")
            await self._refer(task, tree, left)
        await asyncio.to_thread(delete_files, repo.root, [one.path for one in changes if one.added])
        await self._restore(target, [one for one in changes if not one.added])

    async def _restore(self, tree: str, changes: Sequence[PathChange]) -> None:
        if changes:
            listed = b"".join(os.fsencode(one.path) + b"\0" for one in changes)
            files = ("--pathspec-from-file=-", "--pathspec-file-nul")
            command = ("--literal-pathspecs", "restore", "--quiet", f"--source={tree}", "--worktree", *files)
            await self.repo.git(*command, stdin=listed)

    async def _commit(self, tree: str, parents: Sequence[str], message: str) -> str:
        named = [word for parent in parents for word in ("-p", parent)]
        return (await self.repo.git(*FALLBACK_IDENTITY, "commit-tree", tree, *named, "-m", message)).strip()

    async def _refer(self, task: str, tree: str, commit: str) -> str:
        # Named after the tree: repeated after a kill, this is the same ref.
        ref = f"refs/segue/kept/{self.run}/task-{clean_name(task)}-{tree[:10]}"
        await self.repo.git("update-ref", ref, commit)
        return ref

    def _move_out(self, task: str, paths: Sequence[str]) -> tuple[str, ...]:
        """Move what git cannot keep into a folder of the git folder, which is on the same file system."""
        said = []
        for path in paths:
            folder = private_folder(
                common_dir(self.repo.git_dir) / "segue-kept" / self.run / clean_name(task)
            )
            target = find_free(folder / Path(path).name)
            with Beneath(self.repo.root) as tree:  # a folder above it may be a link by now
                tree.move_out(path.rstrip("/"), target)
            said.append(shown(os.fsencode(f"{path} was moved to {target}.")))
        return tuple(said)
