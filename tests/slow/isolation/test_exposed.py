"""A machine that can isolate nothing: the first run asks, and every place that speaks of the work says so."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from segue.domain.events import NOT_ISOLATED
from tests.cli.place import PLAN, Place
from tests.isolation.means import needs, without_means, without_program

QUESTION = "Let agents work without a sandbox on this machine (asked once)?"
AGENT = "import pathlib, sys; sys.stdin.read(); pathlib.Path('work.txt').write_text('done')"

pytestmark = needs("namespaces")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A machine without means, where nobody has said anything about that."""
    place = Place.make(tmp_path, PLAN)
    place.use_sandbox()
    place.config(f'agent = "command"\n[agents.command]\nargv = {json.dumps([sys.executable, "-c", AGENT])}\n')
    place.env["PATH"] = without_program("bwrap", place.env["PATH"], tmp_path / f"path-{secrets.token_hex(4)}")
    return place


def segue(place: Place, *words: str, code: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
    command = without_means(place.command(*words))
    done = subprocess.run(
        command, cwd=place.repo, env={**place.env, **env}, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    return done


def at_terminal(place: Place, typed: str, *words: str) -> tuple[int, str]:
    """Run Segue for a person who types something; return its exit code and what it showed."""
    ours, theirs = pty.openpty()
    os.write(ours, typed.encode())
    process = subprocess.Popen(
        without_means(place.command(*words)),
        cwd=place.repo,
        env={**place.env, "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):  # the other side is closed
        while part := os.read(ours, 4096):
            said += part
    os.close(ours)
    return process.wait(), " ".join(said.decode("utf-8", "replace").split())


def test_without_a_terminal_the_first_run_needs_a_word(place: Place) -> None:
    done = segue(place, "run", "plan.md", "--task", "1", code=2)
    assert "Agents are not isolated: " in done.stderr
    assert "Nothing was started." in done.stderr
    assert "--yes" in done.stderr
    assert 'isolation = "none"' in done.stderr
    assert not (place.repo / "work.txt").exists()
    assert not place.database.exists()


def test_a_yes_is_remembered_and_everything_says_that_agents_are_not_isolated(place: Place) -> None:
    done = segue(place, "run", "plan.md", "--task", "1", "--yes", "--quiet")
    assert "Agents are not isolated: " in done.stderr
    done = segue(place, "run", "plan.md", "--task", "2", "--json", "--allow-no-change")
    assert json.loads(done.stdout.splitlines()[0])["isolation"] == NOT_ISOLATED
    assert NOT_ISOLATED in place.segue("status", "last").stdout
    assert place.json("status", "last")["isolation"] == NOT_ISOLATED
    assert NOT_ISOLATED in place.segue("proof", "last").stdout
    assert {card["isolation"] for card in place.json("proof", "last")["tasks"]} == {NOT_ISOLATED}
    assert "Sandbox: not isolated in 2 runs." in place.segue("report", "gaps").stdout


def test_a_person_is_asked_once(place: Place) -> None:
    code, said = at_terminal(place, "n\n", "run", "plan.md", "--task", "1")
    assert code == 2
    assert QUESTION in said
    assert not (place.repo / "work.txt").exists()
    code, said = at_terminal(place, "y\n", "run", "plan.md", "--task", "1")
    assert code == 0
    assert QUESTION in said
    code, said = at_terminal(place, "", "run", "plan.md", "--task", "2", "--allow-no-change")
    assert code == 0
    assert QUESTION not in said
    assert "Agents are not isolated: " in said


def test_who_wants_no_sandbox_is_not_asked_and_who_requires_one_is_refused(place: Place) -> None:
    done = segue(place, "run", "plan.md", "--task", "1", SEGUE_ISOLATION="none")
    assert "Agents are not isolated." in done.stderr
    done = segue(place, "run", "plan.md", "--task", "2", "--yes", code=5, SEGUE_ISOLATION="require")
    assert "nothing here can isolate agents" in done.stderr
