"""A throw-away repository with a plan and settings, in which Segue is measured."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SEGUE = str(Path(sys.executable).with_name("segue"))
TRUE = shutil.which("true") or "true"


@dataclass(frozen=True, slots=True)
class Place:
    """One repository, and a home folder of its own so that the user's settings do not count."""

    folder: Path

    @property
    def repo(self) -> Path:
        """The work tree."""
        return self.folder / "repo"

    @property
    def environment(self) -> dict[str, str]:
        """What Segue and the yardsticks see."""
        home = str(self.folder / "home")
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": home,
            "XDG_CONFIG_HOME": home,
            "XDG_STATE_HOME": home,
            "GIT_CONFIG_NOSYSTEM": "1",
            "SEGUE_STATE_DIR": str(self.folder / "state"),
            "SEGUE_TRUST": "1",
        }

    def write_plan(self, tasks: int, name: str = "plan.md") -> str:
        """Write a plan outside of the work tree and return its path."""
        plan = self.folder / name
        parts = [f"## Task {n}\n\nDo piece {n} of the work.\n" for n in range(1, tasks + 1)]
        plan.write_text("# A plan\n\n" + "\n".join(parts))
        return str(plan)

    def command(self, *arguments: str, argv: Sequence[str] = (TRUE,)) -> list[str]:
        """Return a command line of Segue whose agent runs the given program."""
        config = self.folder / "segue.toml"
        config.write_text(f'agent = "command"\n[agents.command]\nargv = {json.dumps(list(argv))}\n')
        return [SEGUE, *arguments, "--config", str(config), "--repo", str(self.repo)]

    def run(self, command: Sequence[str], **variables: str) -> str:
        """Run a command to its end and return what it prints."""
        environment = {**self.environment, **variables}
        done = subprocess.run(
            command, cwd=self.repo, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        return done.stdout

    def commit(self, files: dict[str, str]) -> str:
        """Commit files and return the commit."""
        for name, text in files.items():
            (self.repo / name).write_text(text)
        self.run(["git", "add", "--all"])
        self.run(["git", "commit", "--quiet", "--message=Work"])
        return self.run(["git", "rev-parse", "HEAD"]).strip()


@contextmanager
def place() -> Iterator[Place]:
    """Make a place, and remove it at the end."""
    with tempfile.TemporaryDirectory(prefix="segue-bench-") as name:
        made = Place(Path(name).resolve())
        made.repo.mkdir()
        (made.folder / "home").mkdir()
        (made.folder / "home" / ".gitconfig").write_text("[user]\nname = Bench\nemail = bench@localhost\n")
        made.run(["git", "init", "--quiet", "--initial-branch=main"])
        made.commit({"README.md": "A small repository.\n"})
        yield made
