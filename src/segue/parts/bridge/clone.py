"""A fresh clone for every subagent on this machine; its work is pushed back as a branch."""

from __future__ import annotations

import shutil
from pathlib import Path

from msgspec import Struct

from segue.system.files import private_folder
from segue.system.git.repository import Repository
from segue.system.git.scratch import clone_whole


class Clone(Struct, frozen=True):
    """A clone of one of the user's folders, in which one subagent works on one branch."""

    source: Path
    folder: Path
    branch: str
    base: str | None = None
    """The branch of the source to start from; its current one if unset."""

    async def prepare(self) -> None:
        """Create the clone, unless a killed process has already created it."""
        if (self.folder / ".git").exists():
            return
        half = private_folder(self.folder.parent) / f"{self.folder.name}.half"
        shutil.rmtree(half, ignore_errors=True)
        options = [f"--branch={self.base}"] if self.base else []
        await (await clone_whole(self.source, half, *options)).git(
            "switch", "--quiet", "--create", self.branch
        )
        half.replace(self.folder)

    async def push(self, message: str) -> str | None:
        """Commit the work and push it to the source; return the branch, or None if nothing was done."""
        repo = await Repository.open(self.folder)
        await repo.commit(message)
        commits = await repo.git("rev-list", "--count", "HEAD", "--not", "--remotes=origin")
        if commits.strip() == "0" and not await self._is_pushed(repo):
            return None
        await repo.git("push", "--quiet", "origin", f"HEAD:refs/heads/{self.branch}")
        return self.branch

    def remove(self) -> None:
        """Delete the clone, once the work is pushed and recorded."""
        shutil.rmtree(self.folder, ignore_errors=True)

    async def _is_pushed(self, repo: Repository) -> bool:
        """Return whether a killed process had already pushed the branch."""
        return bool((await repo.git("ls-remote", "origin", f"refs/heads/{self.branch}")).strip())
