"""A project with one lane, in which programs are run in the sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from segue.domain.proof import CheckState, Seal
from segue.proof.execute import SealOptions
from segue.proof.seal import Sealer
from segue.system.git.lanes import LaneTrees
from segue.system.git.repository import Repository
from segue.system.isolation.isolate import Isolation, SandboxOptions, capture_inside
from segue.system.process.capture import child_environment
from tests.isolation.means import MOUNTER
from tests.system.test_git import git

CACHE = Path(__file__).resolve().parents[2] / ".pytest_cache"


RUN = "20261116-010203-abcd"


class Project:
    """A repository with what git ignores, and one lane; not in /tmp, which sandboxes treat specially."""

    def __init__(self, root: Path) -> None:
        self.repo, self.state = root / "repo", root / "state"
        self.repo.mkdir(parents=True)
        git(self.repo, "init", "--quiet", "--initial-branch=main")
        git(self.repo, "config", "user.name", "Test")
        git(self.repo, "config", "user.email", "test@localhost")
        self.options = SandboxOptions(isolation=MOUNTER, state_dir=self.state, home=self.repo)

    def write(self, **files: str) -> None:
        for name, text in files.items():
            path = self.repo / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def commit(self, message: str = "Start") -> str:
        git(self.repo, "add", "--all")
        git(self.repo, "commit", "--quiet", "--message", message)
        return git(self.repo, "rev-parse", "HEAD")

    def lane(self) -> Path:
        async def work() -> Path:
            lanes = LaneTrees(await Repository.open(self.repo), self.state / "worktrees", RUN)
            return (await lanes.open(1, "HEAD")).root

        return asyncio.run(work())

    def run(self, lane: Path, *argv: str, shares: bool = True, **env: str) -> str:
        own = {**child_environment(), **env}
        done = asyncio.run(
            capture_inside(Isolation(self.options), argv, lane, own, 300.0, network=False, shares=shares)
        )
        return (done.out + done.err).decode().strip()

    def sealer(self, lane: Path) -> Sealer:
        folder = git(lane, "rev-parse", "--absolute-git-dir")
        return Sealer(lane, Path(folder), self.state / "checks", SealOptions(timeout=300), home=self.repo)

    async def check(self, lane: Path, argv: list[str], base: str) -> tuple[CheckState | None, Seal, str]:
        sealer = self.sealer(lane)
        await sealer.prepare()
        result = await sealer.check(argv, base, git(lane, "rev-parse", "HEAD"))
        return result.state, result.seal, result.output + result.reason


@pytest.fixture
def project() -> Iterator[Project]:
    CACHE.mkdir(exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix="lanes-", dir=CACHE))
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        yield Project(root)


PACKAGE = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "shop"
version = "1"
"""


def _install_editable(repo: Path) -> None:
    """Do what `pip install -e .` does, without a network: a virtual environment that names the source."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", ".venv"], cwd=repo, check=True)
    (site,) = (repo / ".venv").glob("lib/python*/site-packages")
    (site / "__editable__.shop-1.pth").write_text(f"{repo / 'src'}\n")
