"""A fresh clone for every subagent on this machine; what it did goes back as a branch of its own."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from segue.domain.errors import WorkspaceError
from segue.system.files import private_folder
from segue.system.git.repository import Repository
from segue.system.process.processes import capture, child_environment


@dataclass(frozen=True, slots=True)
class Clone:
    """A clone of a folder of the user, in which one subagent works on one branch."""

    source: Path
    folder: Path
    branch: str
    base: str | None = None
    """The branch of the source that the work builds on; the one it stands on if unset."""

    async def prepare(self) -> None:
        """Make the clone; one that a killed process has finished making is used as it is."""
        if (self.folder / ".git").exists():
            return
        await Repository.open(self.source)
        half = private_folder(self.folder.parent) / f"{self.folder.name}.half"
        shutil.rmtree(half, ignore_errors=True)
        options = [f"--branch={self.base}"] if self.base else []
        await _git(self.source, "clone", "--quiet", *options, "--", str(self.source.resolve()), str(half))
        await _git(half, "switch", "--quiet", "--create", self.branch)
        half.replace(self.folder)

    async def hand_in(self, message: str) -> str | None:
        """Commit what was done and push it to the source; the branch, or None when nothing was done."""
        repo = await Repository.open(self.folder)
        await repo.commit(message)
        done = await repo.git("rev-list", "--count", "HEAD", "--not", "--remotes=origin")
        if done.strip() == "0" and not await self._handed_in(repo):
            return None
        await repo.git("push", "--quiet", "origin", f"HEAD:refs/heads/{self.branch}")
        return self.branch

    def remove(self) -> None:
        """The work is handed in and written down: the clone may go."""
        shutil.rmtree(self.folder, ignore_errors=True)

    async def _handed_in(self, repo: Repository) -> bool:
        """Whether a process that was killed had pushed the branch before."""
        return bool((await repo.git("ls-remote", "origin", f"refs/heads/{self.branch}")).strip())


async def _git(where: Path, *arguments: str) -> None:
    done = await capture(["git", *arguments], cwd=where, env=child_environment(), timeout=600)
    if done.exit_code != 0:
        said = done.err.decode("utf-8", "replace").strip()[-500:]
        raise WorkspaceError(f"git {arguments[0]} failed: {said or done.exit_code}")
