"""Whole commands where an agent could have written what PATH and the environment lead to."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.isolation.agent import agent
from tests.isolation.means import each
from tests.isolation.trap import Trap, place, started
from tests.proof.projects import needs_sandbox

__all__ = ["place"]


@needs_sandbox
def test_doctor_starts_nothing_from_the_tree(place: Trap) -> None:
    place.activate()
    done = place.segue("doctor", code=None)
    assert started(place) == ""
    assert "not asked: agents can write it" in done.stdout


@pytest.mark.parametrize("means", each("bwrap"))
def test_a_run_starts_nothing_from_the_tree_but_checks_do(means: str, place: Trap) -> None:
    place.activate()
    place.plant(place.repo / ".venv/bin", "only-here")
    agent(place, "", 'checks = ["only-here"]')
    place.segue("run", "plan.md", "--task", "1", "--isolation", means)
    assert started(place) == ""
    assert (place.repo / "work.txt").exists()


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


def test_modules_in_the_tree_are_not_imported(place: Trap) -> None:
    (place.repo / "click.py").write_text(f"open({str(place.marker)!r}, 'w').write('imported')\n")
    for variable in ("", str(place.repo)):
        env = {**place.env, **({"PYTHONPATH": variable} if variable else {})}
        command = [sys.executable, "-m", "segue", "--version"]
        subprocess.run(command, cwd=place.repo, env=env, check=True, capture_output=True)
        assert started(place) == ""
