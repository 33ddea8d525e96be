"""The one-file build works on a machine without Python: nothing on its PATH but git.

SEGUE_BINARY names the executable; `make slow` builds it first.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from segue import __version__

BINARY = os.environ.get("SEGUE_BINARY", "")
DEADLINE = 180.0
PLAN = "# Plan\n\n## Task 1\nWrite one.\n\n## Task 2\nWrite two.\n\n## Task 3\nWrite three.\n"
pytestmark = pytest.mark.skipif(not BINARY, reason="SEGUE_BINARY names no executable")


@dataclass(frozen=True)
class Bare:
    """A repository with a plan on a machine that has git and the executable, and nothing else."""

    root: Path
    env: dict[str, str]

    @property
    def repo(self) -> Path:
        return self.root / "repo"

    def segue(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [BINARY, *arguments],
            cwd=self.repo,
            env={**self.env, **more},
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def start(self, *arguments: str, **more: str) -> subprocess.Popen[bytes]:
        with (self.root / "log").open("wb") as log:
            return subprocess.Popen(
                [BINARY, *arguments], cwd=self.repo, env={**self.env, **more}, stdout=log, stderr=log
            )

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.repo, env=self.env, check=True, capture_output=True, text=True
        )
        return done.stdout

    def tasks_done(self) -> list[str]:
        return self.git("log", "--format=%s", "--reverse").splitlines()[1:]


@pytest.fixture
def bare(tmp_path: Path) -> Bare:
    git = shutil.which("git")
    assert git
    tools = tmp_path / "tools"
    tools.mkdir()
    # Without bubblewrap the sandbox hides the folder that the build was unpacked into.
    env = {"PATH": str(tools), "HOME": str(tmp_path / "home"), "SEGUE_ISOLATION": "none", "SEGUE_TRUST": "1"}
    if sys.platform == "win32":
        env |= {"PATH": str(Path(git).parent), "USERPROFILE": env["HOME"]}
        env |= {name: os.environ[name] for name in ("SYSTEMROOT", "COMSPEC", "PATHEXT", "TEMP")}
    else:
        (tools / "git").symlink_to(git)
    (tmp_path / "home").mkdir()
    place = Bare(tmp_path, {**env, "SEGUE_STATE_DIR": str(tmp_path / "state")})
    place.repo.mkdir()
    (place.repo / "plan.md").write_text(PLAN)
    place.git("init", "--quiet")
    place.git("add", "--all")
    place.git("-c", "user.name=T", "-c", "user.email=t@localhost", "commit", "--quiet", "-m", "plan")
    return place


def until(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, f"waited in vain for: {what}"
        time.sleep(0.01)


def test_it_needs_nothing_but_itself_to_say_its_version(tmp_path: Path) -> None:
    env = {"PATH": str(tmp_path)}
    if sys.platform == "win32":
        env |= {name: os.environ[name] for name in ("SYSTEMROOT", "TEMP")}
    done = subprocess.run([BINARY, "--version"], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == f"segue {__version__}\n"
    assert done.stderr == ""


def test_every_command_is_inside(bare: Bare) -> None:
    from segue.cli.main import COMMANDS

    for command in COMMANDS:
        assert "Usage: segue" in bare.segue(command, "--help").stdout
    assert json.loads(bare.segue("config", "list", "--json").stdout)["data"]


def test_the_demo_runs(bare: Bare) -> None:
    bare.segue("demo", "build", "--dir", str(bare.root / "demo"))  # the story runs tests in Python
    log = ["git", "log", "--all", "--format=%s"]
    done = subprocess.run(
        log, cwd=bare.root / "demo" / "build" / "repo", capture_output=True, text=True, check=True
    )
    assert len(done.stdout.splitlines()) > 3, "the plan, and one for each of its tasks"


def test_a_killed_run_goes_on_where_it_was(bare: Bare) -> None:
    gate = bare.root / "gate"
    script = '[[on]]\nwait_for = "GATE"\nappend = { "started" = "{task}\\n" }\nwrite = { "f{task}" = "x" }\n'
    script = script.replace("GATE", str(gate))
    (bare.root / "script.toml").write_text(script)
    (bare.root / "segue.toml").write_text('agent = "scripted"\n[agents.scripted]\nscript = "script.toml"\n')
    process = bare.start("run", "plan.md")
    until(lambda: list((bare.root / "state").glob("runs/*/jobs/*/job.json")), "the agent works")
    process.kill()
    process.wait(DEADLINE)
    gate.touch()
    bare.segue("resume")
    assert (bare.repo / "started").read_text().split() == ["1", "2", "3"], "no agent was started twice"
    assert len(bare.tasks_done()) == 3
