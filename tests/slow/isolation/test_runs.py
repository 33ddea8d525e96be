"""Runs where a means is missing, and what they name and hide."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.cli.place import DEADLINE, Place, until
from tests.isolation.agent import agent, place
from tests.isolation.means import each, needs, run_without_bubblewrap

__all__ = ["place"]


@needs("landlock")
def test_auto_takes_landlock_where_bubblewrap_is_missing(place: Place) -> None:
    agent(place, "")
    done = run_without_bubblewrap(place, "run", "plan.md", "--task", "1")
    assert done.returncode == 0
    assert "isolated by landlock, standard (bubblewrap (bwrap) is not installed)" in done.stderr


@pytest.mark.parametrize("isolation", each("bwrap", "landlock"))
def test_an_agent_is_asked_to_end_before_it_is_killed(place: Place, isolation: str) -> None:
    body = (
        "def note(number, _):\n"
        "    pathlib.Path('asked.txt').write_text(str(number))\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGINT, note)\n"
        "pathlib.Path('ready.txt').touch()\n"
        # A signal just before one long sleep would be noticed only after it.
        "while True: time.sleep(0.05)"
    )
    agent(place, body, f"limits.kill_grace = {DEADLINE}")
    process = place.start("run", "plan.md", "--task", "1", "--isolation", isolation)
    until((place.repo / "ready.txt").exists, "the agent works")
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE) == 130
    assert (place.repo / "asked.txt").read_text() == str(int(signal.SIGINT))


@pytest.mark.parametrize("sandbox", each("bwrap standard", "landlock strict"))
def test_segues_own_secrets_are_hidden_also_when_its_state_is_elsewhere(place: Place, sandbox: str) -> None:
    means, strength = sandbox.split()
    token = Path(place.env["XDG_STATE_HOME"]) / "segue" / "private" / "page" / "token"
    token.parent.mkdir(parents=True)
    token.write_text("a token of the page")
    body = """
try:
    found = pathlib.Path("{token}").read_text()
except OSError as error:
    found = type(error).__name__
pathlib.Path("found.txt").write_text(found)
"""
    agent(place, body.replace("{token}", str(token)))
    place.env |= {"SEGUE_STATE_DIR": str(place.root / "elsewhere"), "SEGUE_SANDBOX__STRENGTH": strength}
    place.segue("run", "plan.md", "--task", "1", "--isolation", means)
    assert (place.repo / "found.txt").read_text() in ("FileNotFoundError", "PermissionError")
