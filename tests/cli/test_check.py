"""`segue check` runs what is configured, and ends as it does."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from tests.cli.place import Place

GOOD = 'checks = [["git", "--version"]]\n'
BAD = 'checks = [["git", "--version"], ["git", "nonsense"]]\n'


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.make(tmp_path)


def test_configured_checks(place: Place) -> None:
    place.config(GOOD)
    assert place.segue("check").stdout.startswith("✓ git --version: passed\n  git version")
    place.config(BAD)
    done = place.segue("check", code=1)
    assert "✗ git nonsense: exit code 1\n" in done.stdout
    assert "is not a git command" in done.stdout
    shown = place.json("check", code=1)
    assert shown["passed"] is False
    assert [check["exit_code"] for check in shown["checks"]] == [0, 1]


def test_a_check_that_is_not_there(place: Place) -> None:
    place.config('checks = [["no-such-program"]]\n')
    assert "✗ no-such-program: was not run" in place.segue("check", code=1).stdout


def test_a_strangers_code_gets_neither_keys_nor_files_nor_the_network(place: Place) -> None:
    """What `gh pr checkout` leaves in the work tree is tried in the sandbox that checks of a run have."""
    token = Path(place.env["HOME"]) / ".ssh" / "id_ed25519"
    token.parent.mkdir(parents=True, exist_ok=True)
    token.write_text("the key")
    listening = socket.create_server(("127.0.0.1", 0))
    address = listening.getsockname()
    (place.repo / "check.py").write_text(
        "import os, pathlib, socket\n"
        f"print('FILE', pathlib.Path({str(token)!r}).exists() and pathlib.Path({str(token)!r}).read_text())\n"
        "print('VARIABLE', os.environ.get('ANTHROPIC_API_KEY'))\n"
        f"try:\n    socket.create_connection({address!r}, 5)\n    print('NETWORK')\n"
        "except OSError:\n    print('ALONE')\n"
        f"pathlib.Path({str(place.root / 'outside')!r}).write_text('x')\n"
    )
    place.config(f'checks = [["{sys.executable}", "check.py"]]\n')
    place.use_sandbox()
    with listening:
        shown = place.json("check", ANTHROPIC_API_KEY="sk-the-key-of-mine", code=None)
    if not shown["isolated"]:
        pytest.skip("there is no sandbox on this machine")
    (said,) = shown["checks"]
    assert "the key" not in said["output"]
    assert "VARIABLE None" in said["output"]
    assert "ALONE" in said["output"]
    assert not (place.root / "outside").exists()


def test_checks_that_are_not_isolated_say_so(place: Place) -> None:
    place.config(GOOD)
    assert "not isolated" in place.segue("check").stderr
    assert place.json("check")["isolated"] is False


def test_nothing_to_check(place: Place) -> None:
    assert "checks = " in place.segue("check", code=2).stderr
