"""Runs in the sandbox: what is said about it, what opens it, and how agents in it are ended and adopted."""

from __future__ import annotations

import signal

from tests.cli.place import Place, processes_with, until
from tests.isolation.agent import agent, ended, place
from tests.isolation.means import MOUNTER, run_without_bubblewrap
from tests.proof.projects import needs_sandbox

__all__ = ["place"]


@needs_sandbox
def test_the_head_and_the_status_say_what_is_in_force(place: Place) -> None:
    agent(place, "")
    done = place.segue("run", "plan.md", "--task", "1")
    assert f"Agents are isolated by {MOUNTER}, standard." in done.stderr
    assert place.json("status", "last")["isolation"] == f"{MOUNTER} standard"
    assert place.events("run.started")[0]["isolation"] == f"{MOUNTER} standard"


def test_a_named_means_that_is_missing_starts_nothing(place: Place) -> None:
    agent(place, "")
    done = run_without_bubblewrap(place, "run", "plan.md", "--isolation", "bwrap")
    assert done.returncode == 5
    assert "bubblewrap (bwrap) is not installed" in done.stderr
    assert "apt install bubblewrap" in done.stderr
    assert not (place.repo / "work.txt").exists()


def test_an_agent_may_commit_if_the_user_opens_git(place: Place) -> None:
    agent(place, "os.system('git commit --quiet --allow-empty -m own')", 'sandbox.write = [".git"]')
    place.segue("run", "plan.md", "--task", "1")
    assert "own" in place.subjects()


def test_a_signal_that_ends_the_agent_is_recorded(place: Place) -> None:
    agent(place, "os.kill(os.getpid(), signal.SIGKILL)")
    place.segue("run", "plan.md", "--task", "1", code=3)
    assert ended(place)["facts"]["signal"] == signal.SIGKILL


def test_an_agent_in_the_sandbox_is_adopted(place: Place) -> None:
    body = "open('starts.txt', 'a').write('x')\nwhile not os.path.exists('go'): time.sleep(0.05)"
    agent(place, body)
    first = place.start("run", "plan.md", "--task", "1")
    until((place.repo / "starts.txt").exists, "the agent works")
    first.kill()
    first.wait()
    (place.repo / "go").touch()
    place.segue("resume", "last")
    assert (place.repo / "starts.txt").read_text() == "x"
    assert ended(place)["facts"]["adopted"] is True
    assert not list(processes_with(str(place.root / "agent.py")))
