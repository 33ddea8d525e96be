"""Create throwaway git repositories for the demo: a shop with a plan, an empty one, a Spec Kit feature."""

from __future__ import annotations

import json
import shutil
import tempfile
import tomllib
from importlib.resources import as_file, files
from pathlib import Path

from segue.system.process.processes import capture, child_environment

_IDENTITY = ("-c", "user.name=Segue demo", "-c", "user.email=demo@localhost")


class DemoRepository:
    """The paths of a demo."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repo = folder / "repo"
        """The git repository."""
        self.remote = folder / "hosted.git"
        """The bare repository that plays the hosted one."""
        self.feature = self.repo / "specs" / "001-greeting"
        """The Spec Kit feature, inside the repository."""
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
    _copy("build.toml", place.folder / "build.toml")
    await _git(place.repo, "init", "--quiet", "--initial-branch=main")
    await _git(place.repo, *_IDENTITY, "commit", "--quiet", "--allow-empty", "-m", "Start")
    return place


async def create_with_feature(folder: Path | None = None) -> DemoRepository:
    """Create a repository with a Spec Kit feature, its hosted copy, and scripts for the services."""
    place = _make_folders(folder)
    for name in ("tasks.md", "spec.md", "plan.md"):
        _copy(f"feature/{name}", place.feature / name)
    for name in ("agents.toml", "judge.toml"):
        _copy(f"feature/{name}", place.folder / name)
    await _commit(place)
    await _git(place.folder, "clone", "--quiet", "--bare", str(place.repo), str(place.remote))
    await _git(place.repo, "remote", "add", "origin", str(place.remote))
    return place


def _make_folders(folder: Path | None) -> DemoRepository:
    place = DemoRepository(folder or Path(tempfile.mkdtemp(prefix="segue-demo-")))
    place.repo.mkdir(parents=True, exist_ok=True)
    return place


def _read(name: str) -> str:
    return (files("segue.sim.demo") / name).read_text("utf-8")


def _copy(name: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with as_file(files("segue.sim.demo")) as source:
        shutil.copy(source / name, target)


async def _commit(place: DemoRepository) -> None:
    await _git(place.repo, "init", "--quiet", "--initial-branch=main")
    await _git(place.repo, "add", "--all")
    await _git(place.repo, *_IDENTITY, "commit", "--quiet", "-m", "Add the tasks")


async def _git(folder: Path, *arguments: str) -> str:
    done = await capture(["git", *arguments], cwd=folder, env=child_environment())
    assert done.exit_code == 0, done.err
    return done.out.decode()
