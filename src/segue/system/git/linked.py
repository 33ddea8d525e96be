"""A work tree that Segue makes beside the user's: find it, clear what a killed git left of it, remove it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from segue.domain.errors import WorkspaceError
from segue.domain.pattern import pattern
from segue.system.git.leftovers import is_half_made, wait_for_git
from segue.system.git.repository import Repository, common_dir
from segue.system.lane import has_content

_PATIENCE = 300.0
_MADE_AGAIN = pattern(
    r"(^|/)(node_modules|__pycache__|\.?venv|env|target|dist|build|out|coverage|htmlcov|vendor|\.[\w.-]*cache"
    r"|\.(next|nuxt|tox|nox|gradle|eggs|coverage|parcel-cache|turbo|svelte-kit|idea|vscode|DS_Store)"
    r"|[\w.-]+\.egg-info)(/|$)|\.(pyc|pyo|o|so|class|log|tmp)$"
)
"""Ignored files that a tool makes again."""


class LinkedTree(Struct, frozen=True):
    """A folder of Segue's that git knows as a work tree of the user's repository."""

    home: Repository
    """The user's work tree."""
    folder: Path

    @property
    def known(self) -> Path:
        """Where git keeps what it knows of the work tree."""
        return common_dir(self.home.git_dir) / "worktrees" / self.folder.name

    async def opened(self) -> Repository | None:
        """Return the work tree, if it exists and is this one."""
        if not self.folder.is_dir():
            return None
        try:
            found = await Repository.open(self.folder)
        except WorkspaceError:
            return None
        # Without a .git of its own, git would find a repository further up: perhaps the user's.
        here = found.root == Path(os.path.realpath(self.folder))
        return found if here and common_dir(found.git_dir) == common_dir(self.home.git_dir) else None

    async def add(self, *arguments: str, options: Sequence[str] = ()) -> Repository:
        """Have git make the work tree; `options` are for git itself."""
        await self.home.git(*options, "worktree", "add", "--quiet", *arguments)
        found = await self.opened()
        if found is None:
            raise WorkspaceError(f"git created the work tree {self.folder}, but it cannot be used.")
        return found

    async def clear(self) -> None:
        """Remove what is left of a `git worktree` that was killed before it was finished."""
        shutil.rmtree(self._trash, ignore_errors=True)
        if self.known.is_dir() and is_half_made(self.known):
            # The one that makes it works in the repository, the one that checks it out in the folder.
            await wait_for_git([self.home.root], _PATIENCE, "worktree")
            await wait_for_git([self.folder], _PATIENCE)
            if is_half_made(self.known):
                shutil.rmtree(self.folder, ignore_errors=True)
                shutil.rmtree(self.known, ignore_errors=True)

    async def remove(self) -> None:
        """Remove the work tree, or what is left of it; its commits are kept."""
        if (self.known / "locked").exists():
            raise WorkspaceError(f"Somebody has locked the work tree {self.folder}.")
        if self.folder.exists():
            # First it is out of the way as a whole: half a work tree could be neither used nor made again.
            shutil.rmtree(self._trash, ignore_errors=True)
            self.folder.rename(self._trash)
        try:
            await self.home.git("worktree", "prune")
        except WorkspaceError:  # somebody killed it, half-way perhaps
            await self.home.git("worktree", "prune")
        shutil.rmtree(self._trash, ignore_errors=True)

    async def uncommittable(self, tree: Repository) -> list[str]:
        """Return ignored files that nobody could make again: all but caches, builds and dependencies."""
        said = await tree.git("status", "--porcelain", "-z", "--ignored=matching", "--untracked-files=all")
        ignored = [entry[3:] for entry in said.split("\0") if entry.startswith("!! ")]
        kept = (path for path in ignored if not _MADE_AGAIN.search(path))
        # The sandbox leaves empty files where it shows those of the user.
        lost = [path for path in kept if (self.folder / path).is_symlink() or has_content(self.folder / path)]
        links = [path for path in ignored if (self.folder / path / ".git").exists()]
        return list(dict.fromkeys([*links, *lost]))

    @property
    def _trash(self) -> Path:
        return self.folder.with_name(f".{self.folder.name}.removed")
