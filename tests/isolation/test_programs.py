"""Whole commands where an agent could have written what PATH and the environment lead to."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import segue
from segue.system.isolation.isolate import Isolation, SandboxOptions
from segue.system.programs import keep_out
from tests.cli.place import PLAN, Place
from tests.isolation.means import each, needs
from tests.isolation.test_runs import agent
from tests.proof.projects import needs_sandbox

NAMES = ("git", "bwrap", "sh", "ssh", "python3", "gh", "cp", "less", "claude", "codex", "docker")
FAKE = '#!/bin/sh\necho "$0 $*" >> {marker}\nexit {code}\n'


class Trap(Place):
    """A place with an activated environment in the work tree, full of programs that note their start."""

    @property
    def marker(self) -> Path:
        """Agents and checks cannot write it: it is beside the work tree."""
        return self.root / "started-outside"

    def plant(self, folder: Path, *names: str, code: int = 0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            (folder / name).write_text(FAKE.format(marker=self.marker, code=code))
            (folder / name).chmod(0o755)

    def activate(self) -> None:
        self.plant(self.repo / ".venv/bin", *NAMES)
        (self.repo / ".git/info/exclude").write_text(".venv\nnode_modules\n")
        self.env["PATH"] = f"{self.repo}/.venv/bin{os.pathsep}{self.env['PATH']}"
        for name in ("GIT_SSH", "EDITOR", "PAGER", "SHELL", "BROWSER"):
            self.env[name] = f"{self.repo}/.venv/bin/ssh"


@pytest.fixture
def place(tmp_path: Path) -> Trap:
    made = Place.make(tmp_path, PLAN)
    place = Trap(made.root, made.env)
    place.use_sandbox()
    return place


def started(place: Trap) -> str:
    return place.marker.read_text() if place.marker.exists() else ""


def test_the_trap_works(place: Trap) -> None:
    place.activate()
    subprocess.run(["git", "status"], env=place.env, check=True)
    assert started(place) == f"{place.repo}/.venv/bin/git status\n"


@needs_sandbox
def test_doctor_starts_nothing_from_the_tree(place: Trap) -> None:
    place.activate()
    done = place.segue("doctor", code=None)
    assert started(place) == ""
    assert "not asked: agents can write it" in done.stdout


@pytest.mark.thorough
@needs_sandbox
def test_neither_does_a_command_from_another_folder(place: Trap) -> None:
    agent(place, "")
    place.segue("run", "plan.md", "--task", "1")
    place.activate()
    command = place.command("doctor", "--repo", str(place.root))
    subprocess.run(command, cwd=place.root, env=place.env, check=False, capture_output=True)
    assert started(place) == ""


@pytest.mark.quick("bwrap")
@pytest.mark.parametrize("means", each("bwrap", "namespaces", "landlock"))
def test_a_run_starts_nothing_from_the_tree_but_checks_do(means: str, place: Trap) -> None:
    place.activate()
    place.plant(place.repo / ".venv/bin", "only-here")
    agent(place, "", 'checks = ["only-here"]')
    place.segue("run", "plan.md", "--task", "1", "--isolation", means)
    assert started(place) == ""
    assert (place.repo / "work.txt").exists()


@pytest.mark.thorough
@needs_sandbox
def test_what_an_agent_writes_is_not_started_after_it(place: Trap) -> None:
    place.env["PATH"] = f"{place.repo}/.venv/bin{os.pathsep}{place.env['PATH']}"
    fake = FAKE.format(marker=place.marker, code=0)
    body = f"""
folder = pathlib.Path(".venv/bin")
folder.mkdir(parents=True)
for name in {NAMES!r}:
    (folder / name).write_text({fake!r})
    (folder / name).chmod(0o755)
"""
    (place.repo / ".git/info/exclude").write_text(".venv\n")
    agent(place, body)
    place.segue("run", "plan.md", "--task", "1")
    agent(place, "")
    place.segue("run", "plan.md", "--task", "2", code=None)
    assert (place.repo / ".venv/bin/git").exists()
    assert started(place) == ""


@needs_sandbox
def test_an_agent_that_the_project_installed_runs_in_the_sandbox_alone(place: Trap) -> None:
    place.plant(place.repo / "node_modules/.bin", "claude", code=1)
    (place.repo / ".git/info/exclude").write_text("node_modules\n")
    place.env["PATH"] = f"{place.repo}/node_modules/.bin{os.pathsep}/usr/bin{os.pathsep}/bin"
    place.env["ANTHROPIC_API_KEY"] = "none"
    place.segue("run", "plan.md", "--agent", "claude", "--task", "1", code=None)
    ((launched,),) = place.rows("select count(*) from orchestrator_events where type = 'agent.started'")
    assert launched
    assert started(place) == ""


@pytest.mark.parametrize("means", each("bwrap", "namespaces", "landlock"))
def test_a_library_in_the_tree_is_loaded_inside_alone(means: str, place: Trap) -> None:
    keep_out([place.repo])
    wanted = {"LD_LIBRARY_PATH": f"{place.repo}/lib", "PATH": f"{place.repo}/bin:/usr/bin:/bin"}
    (place.repo / "lib").mkdir()
    isolation = Isolation(SandboxOptions(isolation=means))
    inside = isolation.enclose(["/usr/bin/env"], place.repo, wanted, place.root / "scratch")
    assert not [value for value in inside.env.values() if str(place.repo) in value]
    said = subprocess.run(inside.argv, env=inside.env, check=True, capture_output=True, text=True).stdout
    assert set(said.splitlines()) >= {f"{name}={value}" for name, value in wanted.items()}


def install_in(tree: Path) -> Path:
    """Install Segue into an environment in the work tree, and return its Python."""
    venv.create(tree / ".venv", symlinks=True, with_pip=False)
    python = tree / ".venv/bin/python"
    said = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    )
    packages = Path(said.stdout.strip())
    (packages / "segue").symlink_to(Path(segue.__file__).parent)
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    return python


@pytest.mark.thorough
@needs("bwrap")
def test_agents_cannot_change_an_environment_that_segue_runs_from(place: Trap) -> None:
    python = install_in(place.repo)
    (place.repo / ".git/info/exclude").write_text(".venv\n")
    body = "try:\n    open('.venv/evil.pth', 'w')\nexcept OSError as error:\n    print(error)"
    agent(place, body)
    command = [str(python), "-m", "segue", "run", "plan.md", "--task", "1"]
    done = subprocess.run(command, cwd=place.repo, env=place.env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"Segue is installed in {place.repo}/.venv, so agents cannot change that folder" in done.stderr
    assert not (place.repo / ".venv/evil.pth").exists()
    agent(place, body, 'sandbox.write = [".venv"]')
    command[-1] = "2"
    done = subprocess.run(command, cwd=place.repo, env=place.env, capture_output=True, text=True, check=False)
    assert f"Segue itself runs from {place.repo}/.venv, where agents can write" in done.stderr
    assert (place.repo / ".venv/evil.pth").exists()


def test_modules_in_the_tree_are_not_imported(place: Trap) -> None:
    (place.repo / "click.py").write_text(f"open({str(place.marker)!r}, 'w').write('imported')\n")
    for variable in ("", str(place.repo)):
        env = {**place.env, **({"PYTHONPATH": variable} if variable else {})}
        command = [sys.executable, "-m", "segue", "--version"]
        subprocess.run(command, cwd=place.repo, env=env, check=True, capture_output=True)
        assert started(place) == ""
