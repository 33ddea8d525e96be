"""Take back a merge or a switch that was killed halfway, so that it can be repeated."""

from __future__ import annotations

import os

from segue.domain.errors import WorkspaceError
from segue.domain.workspace import Snapshot
from segue.system.git.objects import Objects, PathChange
from segue.system.git.repository import Repository

_STATE = ("MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "AUTO_MERGE")


async def undo_killed_merge(home: Repository, branch: str) -> None:
    """Put back what a killed merge of the branch has changed in the work tree, if nothing is lost by that."""
    now = await home.snapshot()
    tip = (await home.git("rev-parse", f"refs/heads/{branch}")).strip()
    merging = home.git_dir / "MERGE_HEAD"
    if not now.dirty or (merging.exists() and merging.read_text().strip() != tip):
        return
    if await undo_killed_switch(home, now, await _merge_trees(home, now.head, tip)):
        for name in _STATE:
            (home.git_dir / name).unlink(missing_ok=True)


async def undo_killed_switch(home: Repository, now: Snapshot, target: str) -> bool:
    """Put back what git had already changed when it was killed on its way to the target, a commit or tree.

    Each changed file must be what it is there; one may be missing or be the beginning of that. A person's
    edits differ, and nothing is put back then.
    """
    objects = home.objects()
    expected = {one.path: one for one in await objects.changes(now.head, target)}
    changed = await objects.changes(now.head, await home.tree(now))
    if any(change.path not in expected for change in changed):
        return False
    torn = [change for change in changed if change.blob_after != expected[change.path].blob_after]
    if len(torn) > 1 or not all([await _is_part(home, objects, one, expected[one.path]) for one in torn]):
        return False
    await _restore(home, list(expected.values()))
    return True


async def _merge_trees(home: Repository, head: str, tip: str) -> str:
    """Return what the merge leads to; where this git cannot say that, what the branch contains."""
    if await home.objects().is_ancestor(head, tip):
        return tip
    try:
        return (await home.git("merge-tree", "--write-tree", head, tip)).split()[0]
    except WorkspaceError:
        return tip


async def _is_part(home: Repository, objects: Objects, found: PathChange, expected: PathChange) -> bool:
    if found.removed or expected.removed:
        return found.removed
    whole = (await objects.git("cat-file", "blob", expected.blob_after)).out
    file = home.root / found.path
    return file.is_file() and not file.is_symlink() and whole.startswith(file.read_bytes())


async def _restore(home: Repository, changes: list[PathChange]) -> None:
    """Give these paths the content they have in HEAD."""
    listed = ("--pathspec-from-file=-", "--pathspec-file-nul")
    paths = [os.fsencode(one.path) for one in changes]
    kept = [os.fsencode(one.path) for one in changes if not one.added]
    await home.git("--literal-pathspecs", "reset", "--quiet", *listed, stdin=b"\0".join(paths))
    if kept:
        await home.git("--literal-pathspecs", "checkout", "--quiet", *listed, stdin=b"\0".join(kept))
    for change in changes:
        if change.added:
            (home.root / change.path).unlink(missing_ok=True)
