"""Puts a branch back that an agent rewrote, and judges merges and the like that it left open."""

from __future__ import annotations

import os

from segue.domain.errors import WorkspaceError
from segue.system.git.index import has_markers
from segue.system.git.moves import UNDER_WAY
from segue.system.git.nested import GitViolation
from segue.system.git.repository import Repository

_FILES = ("--pathspec-from-file=-", "--pathspec-file-nul")


async def put_history_back(repo: Repository, name: str, heads: tuple[str, str], label: str) -> GitViolation:
    """Put a branch back to the first of two commits; the second, which lacks it, is kept under a ref.

    Files that are as they were before the dropped commits get the work of those again. That fails only an
    attempt of which nothing is left then.
    """
    head, made = heads
    kept = f"refs/segue/kept/{label}"
    what = f"The history of {name} was rewritten while the agent worked: {head[:10]} was gone."
    try:
        if made:
            await repo.git("update-ref", kept, made)
        await repo.git("reset", "--quiet", "--soft", head)
        undone = await _undone(repo, head, made)
        if undone:
            listed = b"".join(os.fsencode(path) + b"\0" for path in undone)
            restore = ("restore", "--quiet", "--source=HEAD", "--staged", "--worktree", *_FILES)
            await repo.git("--literal-pathspecs", *restore, stdin=listed)
        works = not undone or (await repo.snapshot()).dirty
    except WorkspaceError as error:
        return GitViolation("history", f"{what} It could not be put back: {error.message}")
    left = f"; what it was made is kept as {kept}" if made else ""
    lost = f" So were the files that it had undone: {', '.join(undone[:5])}." if undone else ""
    text = f"{what} It was put back{left}.{lost} Do not amend, reset or rebase."
    return GitViolation("history", text, fails=not works)


async def _undone(repo: Repository, head: str, made: str) -> list[str]:
    """Return the files that are as they were before commits which a rewritten history dropped."""
    objects = repo.objects()
    asked = await objects.git("merge-base", head, made, codes=(0, 1)) if made else None
    fork = asked.out.decode().strip() if asked is not None else ""
    now = await repo.tree(await repo.snapshot())
    differ = {one.path for one in await objects.changes(fork, now)}
    return [one.path for one in await objects.changes(fork, head) if one.path not in differ]


async def judge_begun(repo: Repository, name: str) -> GitViolation:
    """Say what was left open; what has no conflict any more is ended by the task's commit."""
    what = f"{UNDER_WAY[name]} was begun while the agent worked."
    try:
        open_ = await _find_unresolved(repo)
    except WorkspaceError as error:
        return GitViolation("history", f"{what} Finish or abort it: {error.message}")
    if open_:
        return GitViolation("history", f"{what} Finish or abort it.")
    return GitViolation("history", f"{what} The commit of the task ends it.", fails=False)


async def _find_unresolved(repo: Repository) -> set[str]:
    """Return the files that are in conflict still; those that somebody has resolved since are added."""
    said = await repo.git("ls-files", "--unmerged", "-z")
    paths = {entry.partition("\t")[2] for entry in said.split("\0") if entry}
    if not paths:
        return paths
    # A commit of git's own, with the files as it left them.
    edited = await repo.git("--literal-pathspecs", "diff", "--name-only", "-z", "AUTO_MERGE", "--", *paths)
    resolved = {path for path in paths & set(edited.split("\0")) if not has_markers(repo.root / path)}
    if resolved:
        await repo.git("--literal-pathspecs", "add", "--", *resolved)
    return paths - resolved
