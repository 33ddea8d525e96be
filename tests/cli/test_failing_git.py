"""Whichever git fails or is killed after an agent has ended: the agent is not paid for twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.place import Place

WRAPPER = """#!/bin/sh
# Counts the gits since the first agent ended, and lets some of them fail.
if [ -e {folder}/ended ]; then
    echo >> {folder}/calls
    n=$(wc -l < {folder}/calls)
    if [ $n -ge {first} ] && [ $n -le {last} ]; then {fails}; fi
fi
exec {git} "$@"
"""
AGENT = """#!/bin/sh
echo $SEGUE_TASK/$SEGUE_PHASE >> {folder}/launches
[ $SEGUE_PHASE = plan ] && echo 'I plan to write.' || echo work > work$SEGUE_TASK.txt
touch {folder}/ended
"""
SETTINGS = """{more}agent = "command"
[agents.command]
argv = ["{folder}/agent"]
[review]
reviewer = "command"
[reviewers.command]
argv = ["true"]
format = "exit-code"
"""
FAILS = "echo 'fatal: simulated' >&2; exit 128"
KILLED = "kill -9 $$"

CHECKED = 'checks = [["grep", "-q", "work", "work1.txt"]]\n'
FLOWS = {
    "execute": ("", ("--task", "1")),
    "checked": (CHECKED, ("--task", "1")),
    "lanes": ("jobs = 2\n", ("--task", "1", "--task", "2")),
}


def prepare(place: Place, first: int, last: int, fails: str, more: str = "") -> Path:
    folder = place.root / "gits"
    folder.mkdir()
    values = {"folder": folder, "first": first, "last": last, "fails": fails, "git": shutil.which("git")}
    for name, text in (("git", WRAPPER), ("agent", AGENT)):
        (folder / name).write_text(text.format(**values))
        (folder / name).chmod(0o755)
    (place.repo / "segue.toml").write_text(SETTINGS.format(folder=folder, more=more))
    place.git("add", "-A")
    place.git("commit", "--quiet", "-m", "settings")
    place.env["PATH"] = f"{folder}:{place.env['PATH']}"
    return folder


def check(place: Place, folder: Path, tasks: int = 1) -> None:
    """See that the run is done, and that each of its agents was launched once."""
    launches = (folder / "launches").read_text().split()
    assert len(set(launches)) == len(launches)
    assert place.json("status", "last")["state"] == "done"
    (folder / "ended").unlink(missing_ok=True)
    assert place.git("log", "--format=%s").count("Task ") == tasks


@pytest.mark.parametrize(("flow", "number"), [("execute", 1), ("checked", 11), ("lanes", 20)])
def test_one_git_fails(place: Place, flow: str, number: int) -> None:
    more, arguments = FLOWS[flow]
    folder = prepare(place, number, number, FAILS, more)
    place.segue("run", "plan.md", *arguments, code=None)
    place.segue("resume", "last", code=None)
    check(place, folder, arguments.count("--task"))


def test_one_git_is_killed(place: Place) -> None:
    folder = prepare(place, 4, 4, KILLED)
    place.segue("run", "plan.md", "--task", "1", code=None)
    place.segue("resume", "last", code=None)
    check(place, folder)
