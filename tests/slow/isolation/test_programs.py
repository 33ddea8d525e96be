"""What an agent leaves in the tree or in an environment is started by nobody outside."""

from __future__ import annotations

import os
import subprocess

import pytest

from segue.system.isolation.isolate import Isolation, SandboxOptions
from segue.system.programs import keep_out
from tests.isolation.agent import agent
from tests.isolation.means import each, needs
from tests.isolation.trap import FAKE, NAMES, Trap, install_in, place, started
from tests.proof.projects import needs_sandbox

__all__ = ["place"]


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


@pytest.mark.parametrize("means", each("bwrap", "landlock"))
def test_a_library_in_the_tree_is_loaded_inside_alone(means: str, place: Trap) -> None:
    keep_out([place.repo])
    wanted = {"LD_LIBRARY_PATH": f"{place.repo}/lib", "PATH": f"{place.repo}/bin:/usr/bin:/bin"}
    (place.repo / "lib").mkdir()
    isolation = Isolation(SandboxOptions(isolation=means))
    inside = isolation.enclose(["/usr/bin/env"], place.repo, wanted, place.root / "scratch")
    assert not [value for value in inside.env.values() if str(place.repo) in value]
    said = subprocess.run(inside.argv, env=inside.env, check=True, capture_output=True, text=True).stdout
    assert set(said.splitlines()) >= {f"{name}={value}" for name, value in wanted.items()}


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
