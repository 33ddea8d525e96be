"""Lanes in the sandbox: what users install, hide and share."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from segue.domain.proof import CheckState, Seal
from segue.system.isolation.isolate import SandboxOptions
from segue.system.isolation.policy import shown_temporary
from tests.cli.place import Place
from tests.isolation.lane_project import PACKAGE, Project, _install_editable, project
from tests.isolation.means import MOUNTER, each, needs
from tests.proof.projects import needs_sandbox
from tests.system.test_git import git

__all__ = ["project"]
pytestmark = needs_sandbox


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


@pytest.mark.parametrize("isolation", each("none", "bwrap"))
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
