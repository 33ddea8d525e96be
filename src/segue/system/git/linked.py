"""A work tree that Segue makes beside the user's: find it, clear what a killed git left of it, remove it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from msgspec import Struct

from segue.domain.errors import WorkspaceError
from segue.system.files import read_start
from segue.system.git.folders import common_dir
from segue.system.git.gitlinks import MADE_AGAIN
from segue.system.git.leftovers import is_half_made, wait_for_git
from segue.system.git.repository import Repository
from segue.system.lane import has_content

_PATIENCE = 300.0
_STATUS = (
    *("status", "--porcelain", "-z", "--ignored=matching", "--untracked-files=all"),
    "--ignore-submodules=dirty",
)


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
        """Return the work tree, if it exists and is this one; what its `.git` says does not count."""
        if not self.folder.is_dir() or not self.known.is_dir() or is_half_made(self.known):
            return None
        if _read_place(self.known) != Path(os.path.realpath(self.folder)):
            return None  # another one of this name
        link, said = self.folder / ".git", f"gitdir: {self.known}\n"
        if link.is_symlink() or link.is_dir() or read_start(link) != os.fsencode(said):
            if link.is_dir() and not link.is_symlink():
                raise WorkspaceError(
                    f"{link} is a repository of its own, so the work tree cannot be used.",
                    kept="Nothing was changed.",
                    hint="Move it away, then: segue resume",
                )
            link.unlink(missing_ok=True)
            link.write_text(said)
        return Repository(Path(os.path.realpath(self.folder)), self.known)

    async def add(self, start: str, branch: str = "") -> Repository:
        """Make the work tree at a commit, on a branch or on none, as `git worktree add` does.

        What git still knows of one that was deleted by hand is replaced.
        """
        commit = (await self.home.git("rev-parse", "--verify", "--quiet", f"{start}^{{commit}}")).strip()
        if self.folder.exists() and any(self.folder.iterdir()):
            raise WorkspaceError(f"{self.folder} is not empty.", kept="Nothing was changed.")
        shutil.rmtree(self.known, ignore_errors=True)
        self.known.mkdir(parents=True)
        # Until it is finished, it is known as half-made.
        (self.known / "locked").write_text("initializing")
        self.folder.mkdir(parents=True, exist_ok=True)
        real = Path(os.path.realpath(self.folder))
        (self.known / "gitdir").write_text(f"{real}/.git\n")
        (self.known / "HEAD").write_text(f"ref: refs/heads/{branch}\n" if branch else f"{commit}\n")
        (self.known / "commondir").write_text("../..\n")
        (real / ".git").write_text(f"gitdir: {self.known}\n")
        for name in ("info/sparse-checkout", "config.worktree"):
            if data := read_start(self.home.git_dir / name):
                (self.known / name).parent.mkdir(exist_ok=True)
                (self.known / name).write_bytes(data)
        made = Repository(real, self.known)
        await made.git("reset", "--quiet", "--hard")
        (self.known / "locked").unlink()
        return made

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
        said = await tree.git(*_STATUS)
        ignored = [entry[3:] for entry in said.split("\0") if entry.startswith("!! ")]
        kept = (path for path in ignored if not MADE_AGAIN.search(path))
        # The sandbox leaves empty files where it shows those of the user.
        lost = [path for path in kept if (self.folder / path).is_symlink() or has_content(self.folder / path)]
        links = [path for path in ignored if (self.folder / path / ".git").exists()]
        return list(dict.fromkeys([*links, *lost]))

    @property
    def _trash(self) -> Path:
        return self.folder.with_name(f".{self.folder.name}.removed")


def _read_place(known: Path) -> Path:
    """Return the folder of a work tree, as git knows it."""
    return Path(os.path.realpath(os.fsdecode(read_start(known / "gitdir")).strip())).parent
