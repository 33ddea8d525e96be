"""Create throwaway git repositories for the demo: a shop with a plan, and an empty one."""

from __future__ import annotations

import json
import tempfile
import tomllib
from importlib.resources import files
from pathlib import Path

from segue.system.process.processes import capture, child_environment

_IDENTITY = ("-c", "user.name=Segue demo", "-c", "user.email=demo@localhost")


class DemoRepository:
    """The paths of a demo."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repo = folder / "repo"
        """The git repository."""
        self.plan = self.repo / "plan.md"
        """The plan, inside the repository."""
        self.state = folder / "state"
        """Segue's own folder."""
        self.signals = folder / "signals"
        """The files that simulated agents wait for."""

    def signal(self, *names: str) -> None:
        """Let the agents go on that wait for one of these files."""
        for name in names:
            (self.signals / name).touch()


async def create_shop(folder: Path | None = None) -> DemoRepository:
    """Create the repository of a small shop with a plan, and a script for the scripted agent beside it."""
    place = _make_folders(folder)
    for name, text in tomllib.loads(_read("shop.toml"))["files"].items():
        path = place.repo / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    place.signals.mkdir()
    script = _read("script.toml").replace('"signals', json.dumps(place.signals.as_posix())[:-1])
    (place.folder / "script.toml").write_text(script, encoding="utf-8")
    await _commit(place)
    return place


async def create_empty(folder: Path | None = None) -> DemoRepository:
    """Create an empty repository, and a script for the scripted agent beside it."""
    place = _make_folders(folder)
    (place.folder / "build.toml").write_text(_read("build.toml"), encoding="utf-8")
    await _git(place.repo, "init", "--quiet", "--initial-branch=main")
    await _git(place.repo, *_IDENTITY, "commit", "--quiet", "--allow-empty", "-m", "Start")
    return place


def _make_folders(folder: Path | None) -> DemoRepository:
    """Make the folders of a demo, in a new temporary one if none is named."""
    place = DemoRepository(folder or Path(tempfile.mkdtemp(prefix="segue-demo-")))
    place.repo.mkdir(parents=True, exist_ok=True)
    return place


def _read(name: str) -> str:
    return (files("segue.cli.run.demo") / name).read_text("utf-8")


async def _commit(place: DemoRepository) -> None:
    """Make the folder a git repository, with one commit."""
    await _git(place.repo, "init", "--quiet", "--initial-branch=main")
    await _git(place.repo, "add", "--all")
    await _git(place.repo, *_IDENTITY, "commit", "--quiet", "-m", "Add the tasks")


async def _git(folder: Path, *arguments: str) -> str:
    """Run git and return what it prints."""
    done = await capture(["git", *arguments], cwd=folder, env=child_environment())
    assert done.exit_code == 0, done.err
    return done.out.decode()
