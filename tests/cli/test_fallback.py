"""When an agent cannot work: who takes over, for how long, and what a crash must not change about it."""

from __future__ import annotations

import json
import sys

from tests.cli.place import DEADLINE, Place, until
from tests.cli.test_roles import events, who

LIMITED = """
import os, pathlib, sys, time
sys.stdin.read()
tried = pathlib.Path(os.environ["HOME"]) / "tried"
first = not tried.exists()
with tried.open("a") as file:
    file.write("x")
if first:
    print({line})
    sys.exit(1)
pathlib.Path(f"by-command-{{os.environ['SEGUE_TASK']}}").write_text("done")
"""
"""An agent that meets a limit the first time and works afterwards."""


def agents(place: Place, line: str, script: str = "") -> None:
    """The command agent is limited once; the scripted one plays its script."""
    (place.root / "agent.py").write_text(LIMITED.format(line=line))
    (place.root / "script.toml").write_text(script.replace("GATE", str(place.gate)))
    argv = json.dumps([sys.executable, str(place.root / "agent.py")])
    place.config(f'[agents.command]\nargv = {argv}\n[agents.scripted]\nscript = "script.toml"\n')


def limit_in(seconds: int) -> str:
    return f'f"Claude AI usage limit reached|{{int(time.time()) + {seconds}}}"'


def launches(place: Place) -> int:
    """How often the command agent was really started."""
    return len((place.root / "home" / "tried").read_text())


def test_a_fallback_at_work_is_adopted_and_the_first_is_not_tried_again(place: Place) -> None:
    agents(place, limit_in(3600), "[[on]]\ntask = 1\nwait_for = 'GATE'\nappend = { 'f' = 'x' }\n")
    process = place.start("run", "plan.md", "--agent", "command,scripted")
    until(lambda: place.started("task/1/execute/2"), "the second one works")
    process.kill()
    process.wait(DEADLINE)
    place.gate.touch()
    place.segue("resume")
    assert who(place) == [("1", "command"), ("1", "scripted"), ("2", "scripted"), ("3", "scripted")]
    assert launches(place) == 1
    assert (place.repo / "f").read_text() == "x"
    assert len(events(place, "fallback")) == 1
    assert events(place, "run.parked") == []
