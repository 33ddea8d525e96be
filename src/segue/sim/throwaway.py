"""A throw-away git repository with a plan in it."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from segue.system.process import capture, child_environment

_IDENTITY = ("-c", "user.name=Segue demo", "-c", "user.email=demo@localhost")


@dataclass(frozen=True, slots=True)
class Throwaway:
    """Where its parts lie."""

    folder: Path

    @property
    def repo(self) -> Path:
        """The git repository."""
        return self.folder / "repo"

    @property
    def plan(self) -> Path:
        """The plan, inside the repository."""
        return self.repo / "plan.md"

    @property
    def script(self) -> Path:
        """What the simulated agent will do."""
        return self.folder / "script.toml"

    @property
    def state(self) -> Path:
        """Segue's own folder."""
        return self.folder / "state"


async def make(folder: Path | None = None) -> Throwaway:
    """Make the repository, commit the plan."""
    place = Throwaway(folder or Path(tempfile.mkdtemp(prefix="segue-demo-")))
    place.repo.mkdir(parents=True, exist_ok=True)
    with as_file(files("segue.sim") / "demo") as source:
        shutil.copy(source / "plan.md", place.plan)
        shutil.copy(source / "script.toml", place.script)
    for arguments in (
        ["init", "--quiet"],
        ["add", "--all"],
        [*_IDENTITY, "commit", "--quiet", "-m", "The plan"],
    ):
        done = await capture(["git", *arguments], cwd=place.repo, env=child_environment())
        assert done.exit_code == 0, done.err
    return place
