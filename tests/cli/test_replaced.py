"""An agent replaces the plan by something else: nothing outside is touched, nobody waits for ever."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.cli.place import PLAN, Place, until

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links and pipes are different there")


def _replaces(*commands: list[str]) -> str:
    return f'[[on]]\ntask = "1"\nrun = {json.dumps(commands)}\nwrite = {{ "a.txt" = "x" }}\n'


@pytest.mark.quick("a link")
@pytest.mark.parametrize("what", ["a link", "a named pipe"])
def test_a_plan_that_was_replaced_is_put_back_and_named(place: Place, what: str) -> None:
    bashrc = place.root / "home" / ".bashrc"
    bashrc.write_text("mine\n")
    deed = ["ln", "-s", str(bashrc), "plan.md"] if what == "a link" else ["mkfifo", "plan.md"]
    place.script(_replaces(["rm", "plan.md"], deed))
    done = place.segue("run", "plan.md", "--task", "1")
    assert f"tampering: The agent put {what}" in done.stderr
    assert "in place of plan.md" in done.stderr
    assert bashrc.read_text() == "mine\n"
    assert not (place.repo / "plan.md").is_symlink()
    assert (place.repo / "plan.md").read_text() == PLAN
    assert place.json("status", "last")["tasks"][0]["tampering"] == 1
    assert "plan.md" not in place.git("show", "--name-only", "HEAD")


@pytest.mark.thorough
def test_a_run_that_was_killed_with_a_pipe_in_place_of_its_plan_resumes(place: Place) -> None:
    wait = ["sh", "-c", "until [ -e GATE ]; do sleep 0.1; done"]
    place.script(_replaces(["rm", "plan.md"], ["mkfifo", "plan.md"], wait))
    running = place.start("run", "plan.md", "--task", "1")
    until(lambda: place.jobs_at_work() and (place.repo / "plan.md").is_fifo(), "the pipe")
    running.send_signal(signal.SIGKILL)
    running.wait()
    place.gate.touch()
    until(lambda: not place.jobs_at_work(), "the agent's end")
    done = place.segue("resume")
    assert "a named pipe in place of plan.md" in done.stderr
    assert (place.repo / "plan.md").read_text() == PLAN
