"""Looks at a work tree whose configuration nobody has read, and changes nothing there."""

from __future__ import annotations

import os
from pathlib import Path

from segue.domain.errors import WorkspaceError
from segue.domain.workspace import Snapshot
from segue.system.git.index import parse_status
from segue.system.git.repository import STATUS, Repository
from segue.system.reading import work_tree

_TIMEOUT = 120.0
_FROM_HERE = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}


async def look(path: Path) -> tuple[Repository, Snapshot]:
    """Return the repository around a path and a snapshot of it; raises WorkspaceError if that fails."""
    repo = await Repository.open(path, _TIMEOUT)
    here = work_tree(Path(os.path.realpath(path)))
    if os.path.realpath(repo.root) != str(here):
        raise WorkspaceError(
            f"The configuration of git in {here} says that the work tree is {repo.root}.",
            kept="Nothing was read there.",
            hint="See: git config core.worktree",
        )
    return repo, await take_snapshot(repo)


async def take_snapshot(repo: Repository) -> Snapshot:
    """Return a snapshot of the work tree."""
    done = await repo.try_git(*STATUS, extra=_FROM_HERE, timeout=_TIMEOUT)
    if done.exit_code != 0:
        said = done.err.decode("utf-8", "replace").strip()[-300:]
        raise WorkspaceError(f"git cannot say what has changed in {repo.root}: {said}")
    return parse_status(repo.root, done.out)
