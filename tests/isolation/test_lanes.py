"""A lane in the sandbox: seen at the repository's own path, with its dependencies, and git works there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from segue.domain.proof import CheckState, Seal
from segue.proof.execute import SealOptions
from segue.proof.seal import Sealer
from segue.system.git.lanes import LaneTrees
from segue.system.git.repository import Repository
from segue.system.isolation.isolate import Isolation, SandboxOptions, capture_inside
from segue.system.isolation.policy import Strength, shown_temporary
from segue.system.process.capture import child_environment
from tests.cli.place import Place
from tests.isolation.means import MOUNTER, each, needs
from tests.proof.projects import needs_sandbox
from tests.system.test_git import git

pytestmark = needs_sandbox
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


@pytest.mark.parametrize("strength", Strength)
def test_a_lane_is_seen_in_the_place_of_the_users_work_tree(
    project: Project, strength: Strength, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where all of the home is hidden, with the repository in it."""
    monkeypatch.setenv("HOME", str(project.repo.parent))
    project.options = msgspec.structs.replace(project.options, strength=strength)
    project.write(file="committed", **{".gitignore": "node_modules/\n.env\n"})
    project.commit()
    project.write(file="the user's edit", node_modules__one="installed", **{".env": "KEY=1"})
    lane = project.lane()
    (lane / "file").write_text("the agent's edit")
    assert project.run(lane, "pwd") == str(project.repo)
    assert project.run(lane, "cat", str(project.repo / "file")) == "the agent's edit"
    assert project.run(lane, "cat", str(lane / "file")) == "the agent's edit"
    for place in (project.repo, lane):
        assert project.run(lane, "cat", f"{place}/node_modules/one", f"{place}/.env") == "installedKEY=1"
    project.run(lane, "sh", "-c", "echo made > new")
    assert (lane / "new").read_text() == "made\n"
    assert not (project.repo / "new").exists()
    assert (project.repo / "file").read_text() == "the user's edit"
    assert git(lane, "status", "--porcelain").split() == ["M", "file", "??", "new"]


def test_git_works_in_a_lane_and_cannot_be_changed(project: Project) -> None:
    project.write(file="committed\n")
    head = project.commit()
    lane = project.lane()
    (lane / "file").write_text("edit\n")
    assert project.run(lane, "git", "rev-parse", "--show-toplevel", "HEAD").split() == [
        str(project.repo),
        head,
    ]
    assert project.run(lane, "git", "status", "--porcelain") == "M file"
    assert "+edit" in project.run(lane, "git", "diff")
    assert project.run(lane, "git", "-C", str(lane), "log", "--format=%s") == "Start"
    before = {path: path.read_bytes() for path in (project.repo / ".git").rglob("*") if path.is_file()}
    script = (
        "git config user.name X; git branch other; git commit -qam x; git update-ref HEAD HEAD~0 -m x;"
        f" for place in {project.repo}/.git {lane}/.git $(git rev-parse --git-common-dir); do"
        " echo x > $place/config; echo x > $place/hooks/pre-commit; rm -rf $place; done"
    )
    project.run(lane, "sh", "-c", script)
    after = {path: path.read_bytes() for path in (project.repo / ".git").rglob("*") if path.is_file()}
    assert before == after
    assert (lane / ".git").read_text().startswith(f"gitdir: {project.repo}")


@pytest.mark.thorough
@needs("bwrap")
def test_files_of_tmp_may_vanish_while_the_sandbox_starts(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """bubblewrap gives up when a file that it shows vanishes: brief ones are hidden, else it is repeated."""
    for name in ("kept.txt", "tmpab12_xyz", "segue-inside-abc"):
        (tmp_path / name).touch()
    assert shown_temporary(tmp_path) == [tmp_path / "kept.txt"]
    bwrap, first = tmp_path / "bin" / "bwrap", tmp_path / "first"
    bwrap.parent.mkdir()
    gone = "bwrap: Can't bind mount /oldroot/tmp/x on /newroot/tmp/x: No such file or directory"
    again = f'exec {shutil.which("bwrap")} "$@"'
    bwrap.write_text(f'#!/bin/sh\ntest -e {first} && {again}\n: >{first}; echo "{gone}" >&2; exit 1\n')
    bwrap.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bwrap.parent}{os.pathsep}{os.environ['PATH']}")
    assert project.run(project.repo, "echo", "started") == "started"
    assert first.exists()


@pytest.mark.thorough
def test_dependencies_of_the_user_stay_as_they_are_and_those_of_the_lane_win(project: Project) -> None:
    project.write(file="x", **{".gitignore": "node_modules\n"})
    project.commit()
    project.write(node_modules__one="the user's")
    lane = project.lane()
    said = project.run(lane, "sh", "-c", "echo changed > node_modules/one; cat node_modules/one")
    assert said.startswith("the user's")
    assert (project.repo / "node_modules" / "one").read_text() == "the user's"
    project.run(lane, "sh", "-c", "mkdir -p node_modules; echo own > node_modules/one", shares=False)
    assert project.run(lane, "cat", "node_modules/one") == "own"
    assert (project.repo / "node_modules" / "one").read_text() == "the user's"


@pytest.mark.thorough
def test_what_the_user_hides_is_hidden_in_a_lane(project: Project) -> None:
    project.write(file="x", secret__key="tracked", **{".gitignore": ".env\n"})
    project.commit()
    project.write(**{".env": "KEY=1"})
    hide = (project.repo / ".env", project.repo / "secret")
    project.options = SandboxOptions(isolation=MOUNTER, state_dir=project.state, home=project.repo, hide=hide)
    lane = project.lane()
    for place in (project.repo, lane):
        assert "KEY" not in project.run(lane, "cat", f"{place}/.env")
        assert "tracked" not in project.run(lane, "cat", f"{place}/secret/key")


@pytest.mark.thorough
def test_more_can_be_shared(project: Project) -> None:
    project.write(file="x", **{".gitignore": "data\n"})
    project.commit()
    project.write(data__big="rows")
    lane = project.lane()
    assert "rows" not in project.run(lane, "cat", "data/big")
    project.options = SandboxOptions(
        isolation=MOUNTER, state_dir=project.state, home=project.repo, shared=("data",)
    )
    assert project.run(lane, "cat", "data/big") == "rows"


@pytest.mark.thorough
def test_other_work_trees_are_seen_where_they_are(project: Project) -> None:
    project.write(file="x")
    project.commit()
    git(project.repo, "worktree", "add", "--quiet", "--detach", str(project.state / "mine"))
    assert project.run(project.state / "mine", "pwd") == str(project.state / "mine")
    assert project.run(project.repo, "pwd") == str(project.repo)


@pytest.mark.parametrize("isolation", each("none", "bwrap", "namespaces"))
def test_everything_in_a_lane_knows_its_number_and_its_ports(project: Project, isolation: str) -> None:
    project.write(file="x")
    project.commit()
    lane = project.lane()
    project.options = SandboxOptions(isolation=isolation, state_dir=project.state, home=project.repo)
    script = "import os, json; print(json.dumps(dict(os.environ)))"
    said = json.loads(project.run(lane, sys.executable, "-c", script))
    assert said["SEGUE_LANE"] == "1"
    assert 20_000 <= int(said["SEGUE_PORT"]) < 32_000
    if isolation == "none":
        assert said["TMPDIR"] == f"{lane}.tmp"
        assert Path(said["TMPDIR"]).is_dir()


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


@pytest.mark.thorough
def test_an_editable_install_imports_the_code_of_the_lane(project: Project) -> None:
    """Of the agent's own runs, and of sealed checks; the user's work tree has another version."""
    test = (
        "import unittest, shop\nclass T(unittest.TestCase):\n def test(self): self.assertEqual(2, shop.N)\n"
    )
    project.write(**{".gitignore": ".venv/\n", "pyproject.toml": PACKAGE})
    (project.repo / "src" / "shop").mkdir(parents=True)
    (project.repo / "src" / "shop" / "__init__.py").write_text("N = 1\n")
    (project.repo / "test_shop.py").write_text(test)
    base = project.commit()
    _install_editable(project.repo)
    lane = project.lane()
    (lane / "src" / "shop" / "__init__.py").write_text("N = 2\n")
    command = [".venv/bin/python", "-m", "unittest", "-q"]
    assert project.run(lane, *command).endswith("OK")
    git(lane, "commit", "--quiet", "--all", "--message=Work")
    state, seal, said = asyncio.run(project.check(lane, command, base))
    assert (state, seal) == (CheckState.PASSED, Seal.SEALED), said
    assert (project.repo / "src" / "shop" / "__init__.py").read_text() == "N = 1\n"


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
def test_an_npm_project_finds_its_dependencies_in_a_lane(project: Project) -> None:
    script = "const {n} = require('dep'); const own = require('./own'); if (n + own !== 3) process.exit(1)\n"
    manifest = {"name": "app", "version": "1.0.0", "scripts": {"test": "node test.js"}}
    project.write(**{".gitignore": "node_modules/\n", "test.js": script, "own.js": "module.exports = 1\n"})
    project.write(**{"package.json": json.dumps({**manifest, "dependencies": {"dep": "file:dep"}})})
    (project.repo / "dep").mkdir()
    (project.repo / "dep" / "index.js").write_text("exports.n = 1\n")
    (project.repo / "dep" / "package.json").write_text('{"name": "dep", "version": "1.0.0"}')
    env = {**os.environ, "npm_config_cache": str(project.state / "npm"), "npm_config_offline": "true"}
    install = ["npm", "install", "--install-links", "--no-audit", "--no-fund"]
    subprocess.run(install, cwd=project.repo, env=env, check=True, capture_output=True)
    base = project.commit()
    lane = project.lane()
    assert not (lane / "node_modules").exists()
    (lane / "own.js").write_text("module.exports = 2\n")
    assert "exit" not in project.run(lane, "npm", "test", "--silent")
    assert project.run(lane, "sh", "-c", "npm test --silent && echo passed") == "passed"
    git(lane, "commit", "--quiet", "--all", "--message=Work")
    state, _, said = asyncio.run(project.check(lane, ["npm", "test"], base))
    assert state is CheckState.PASSED, said


def test_checks_see_what_an_agent_has_installed_in_its_lane(project: Project) -> None:
    project.write(file="x", **{".gitignore": "node_modules\n", "check.sh": "cat node_modules/one\n"})
    base = project.commit()
    project.write(node_modules__one="the user's")
    lane = project.lane()

    async def check() -> list[tuple[Seal, str]]:
        sealer = project.sealer(lane)
        await sealer.prepare()
        found = []
        for _ in range(2):
            result = await sealer.check(["sh", "check.sh"], base, base)
            found.append((result.seal, result.output))
            (lane / "node_modules").mkdir(exist_ok=True)
            (lane / "node_modules" / "one").write_text("the agent's")
        return found

    assert asyncio.run(check()) == [(Seal.SEALED, "the user's"), (Seal.WEAK, "the agent's")]


def test_git_works_in_the_checks_of_a_lane(project: Project) -> None:
    """There it knows the lane's commit, not the user's."""
    script = "git log -1 --format=%s && git diff --exit-code HEAD -- file && test $SEGUE_LANE = 1\n"
    project.write(file="x\n", **{"check.sh": script})
    base = project.commit()
    lane = project.lane()
    project.write(file="of the user\n")
    project.commit("The user's")
    result = asyncio.run(project.check(lane, ["sh", "check.sh"], base))
    assert result == (CheckState.PASSED, Seal.SEALED, "Start"), result


def test_who_cannot_install_in_a_lane_is_told_what_helps() -> None:
    said = Isolation(SandboxOptions(isolation=MOUNTER)).explain(
        "npm error EROFS: read-only file system, mkdir '/home/me/app/node_modules/left-pad'"
    )
    assert "lane_copy" in said


@pytest.mark.thorough
def test_a_run_in_its_own_work_tree_has_the_users_settings_at_their_path(tmp_path: Path) -> None:
    place = Place.make(tmp_path)
    (place.repo / ".gitignore").write_text(".env\n")
    place.git("add", "--all")
    place.git("commit", "--quiet", "--message=Ignore")
    (place.repo / ".env").write_text("KEY=1\n")
    argv = json.dumps(["sh", "-c", "pwd > where; cat .env > seen; git log -1 --format=%s > log"])
    place.config(f'agent = "command"\n[agents.command]\nargv = {argv}\n')
    place.segue("run", "plan.md", "--task", "1", "--worktree", "--isolation", MOUNTER)
    branch = f"segue/{place.last_run()}"
    said = [place.git("show", f"{branch}:{name}").strip() for name in ("where", "seen", "log")]
    assert said == [os.path.realpath(place.repo), "KEY=1", "Ignore"]
    left = [path for path in (place.database.parent / "worktrees").iterdir() if path.is_dir()]
    assert left == [], "an empty file that the sandbox left does not keep it"
