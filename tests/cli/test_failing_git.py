"""Whichever git fails or is killed after an agent has ended: the agent is not paid for twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.place import Place

WRAPPER = """#!/bin/sh
# Counts the gits since the agent ended, and lets some of them fail.
if [ -e {folder}/ended ]; then
    echo >> {folder}/calls
    n=$(wc -l < {folder}/calls)
    if [ $n -ge {first} ] && [ $n -le {last} ]; then {fails}; fi
fi
exec {git} "$@"
"""
SETTINGS = """agent = "command"
[agents.command]
argv = ["sh", "-c", "echo x >> {folder}/launches; echo work > work.txt; touch {folder}/ended"]
"""
FAILS = "echo 'fatal: simulated' >&2; exit 128"
KILLED = "kill -9 $$"


def prepare(place: Place, first: int, last: int, fails: str) -> Path:
    folder = place.root / "gits"
    folder.mkdir()
    git = shutil.which("git")
    program = folder / "git"
    program.write_text(WRAPPER.format(folder=folder, first=first, last=last, fails=fails, git=git))
    program.chmod(0o755)
    (place.repo / "segue.toml").write_text(SETTINGS.format(folder=folder))
    place.git("add", "-A")
    place.git("commit", "--quiet", "-m", "settings")
    place.env["PATH"] = f"{folder}:{place.env['PATH']}"
    return folder


@pytest.mark.quick("1-fails", "4-killed")
@pytest.mark.parametrize("fails", [FAILS, KILLED], ids=["fails", "killed"])
@pytest.mark.parametrize("number", range(1, 21))
def test_one_git_fails(place: Place, number: int, fails: str) -> None:
    folder = prepare(place, number, number, fails)
    place.segue("run", "plan.md", "--task", "1", code=None)
    place.segue("resume", "last", code=None)
    assert (folder / "launches").read_text().split() == ["x"]
    assert place.json("status", "last")["state"] == "done"
    (folder / "ended").unlink()
    assert place.git("log", "--format=%s", "-1").startswith("Task 1")


@pytest.mark.thorough
def test_git_stays_broken_until_somebody_mends_it(place: Place) -> None:
    folder = prepare(place, 1, 10_000, FAILS)
    said = place.segue("run", "plan.md", "--task", "1", code=3).stderr
    assert "on resume only the look is repeated" in said
    place.segue("resume", "last", code=2)
    (folder / "ended").unlink()
    place.segue("resume", "last")
    assert (folder / "launches").read_text().split() == ["x"]
    assert place.json("status", "last")["state"] == "done"
