"""Runs where a means is missing, and what they name and hide."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path

import pytest

from tests.cli.place import DEADLINE, Place, until
from tests.isolation.agent import agent, place
from tests.isolation.means import MOUNTER, each, needs, run_by
from tests.proof.projects import needs_sandbox

__all__ = ["place"]


@needs("namespaces")
def test_auto_takes_namespaces_where_bubblewrap_is_missing(place: Place) -> None:
    agent(place, "")
    done = run_by("namespaces", place, "run", "plan.md", "--task", "1")
    assert "isolated by namespaces, standard." in done.stderr


@needs("landlock")
def test_auto_takes_landlock_where_namespaces_are_forbidden(place: Place) -> None:
    agent(place, "")
    done = run_by("copy", place, "run", "plan.md", "--task", "1")
    assert done.returncode == 0
    assert "isolated by landlock, standard (" in done.stderr
    assert "this machine allows no user namespaces" in done.stderr


def test_a_closed_place_is_named_with_the_setting_that_opens_it(place: Place) -> None:
    target = place.root / "home" / "notes.txt"
    agent(place, f"pathlib.Path({str(target)!r}).write_text('x')")
    done = place.segue("run", "plan.md", "--task", "1", code=3)
    assert f'sandbox.write = ["{target}"]' in done.stderr
    target.touch()
    agent(place, f"pathlib.Path({str(target)!r}).write_text('x')", f'sandbox.write = ["{target}"]')
    place.segue("run", "plan.md", "--task", "1")
    assert target.read_text() == "x"


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


@pytest.mark.parametrize("sandbox", each("bwrap standard", "namespaces standard", "landlock strict"))
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


@needs_sandbox
def test_temporary_files_are_its_own_whatever_the_machine_has(place: Place) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="claude-") as own,
        tempfile.TemporaryDirectory(prefix="data-") as data,
    ):
        (Path(data) / "input").write_text("seen")
        body = f"""
import tempfile
os.makedirs("{own}", exist_ok=True)
pathlib.Path("{own}", "scratch").write_text("x")
(pathlib.Path(tempfile.gettempdir()) / "{Path(data).name}").mkdir()
pathlib.Path("seen.txt").write_text(pathlib.Path("{data}", "input").read_text())
"""
        agent(place, body)
        place.segue("run", "plan.md", "--task", "1", "--isolation", MOUNTER)
        assert (place.repo / "seen.txt").read_text() == "seen"
        assert not list(Path(own).iterdir())
