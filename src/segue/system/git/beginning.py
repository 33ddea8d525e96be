"""What is made in git before a run can start, and taken back if it cannot: a new repository, refs of ours."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from segue.system.git.folders import common_dir
from segue.system.git.leftovers import clear_leftovers
from segue.system.git.outside import run_git
from segue.system.git.refs import read_refs
from segue.system.git.repository import Repository

_TIMEOUT = 300.0


async def new_repository(folder: Path) -> bool:
    """Turn a missing or empty folder into a repository with one empty commit; return False for others."""
    if not is_new_place(folder):
        return False
    folder.mkdir(parents=True, exist_ok=True)
    await clear_leftovers(folder, folder / ".git", folder / ".git", 0.0, _TIMEOUT)
    await run_git(folder, "init", "--quiet")
    repo = await Repository.open(folder)
    if repo.root != Path(os.path.realpath(folder)):
        return False
    identity = await repo.identity_options()
    await repo.git(*identity, "commit", "--quiet", "--allow-empty", "-m", "Start")
    return True


def undo_of(folder: Path) -> Callable[[], None]:
    """Return what removes a repository that is made there from now on, with the folders that are missing."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    had_git = (folder / ".git").exists()

    def remove() -> None:
        if not had_git:
            shutil.rmtree(folder / ".git", ignore_errors=True)
        with contextlib.suppress(OSError):  # somebody else has put something there
            for place in missing:
                place.rmdir()

    return remove


@asynccontextmanager
async def without_new_refs(repo: Repository, *, wanted: bool = True) -> AsyncIterator[None]:
    """Delete refs of ours that were made in the block, if it raises; unless `wanted`, there will be none."""
    common = common_dir(repo.git_dir)
    before = read_refs(common, own=True) if wanted else {}
    try:
        yield
    except BaseException:
        for name in read_refs(common, own=True) if wanted else ():
            if name.startswith("refs/segue/") and name not in before:
                await repo.git("update-ref", "-d", name)
        raise


def is_new_place(folder: Path) -> bool:
    """Return whether a folder is missing, or has nothing in it but perhaps a repository without commits.

    That may be what is left of one whose making was killed.
    """
    if not folder.is_dir():
        return not folder.exists()
    git_dir, inside = folder / ".git", {path.name for path in folder.iterdir()}
    if inside != {".git"}:
        return not inside
    branches = (path for path in (git_dir / "refs").rglob("*") if path.is_file() and path.suffix != ".lock")
    return git_dir.is_dir() and not (git_dir / "packed-refs").exists() and not any(branches)
