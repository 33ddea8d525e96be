"""When an agent cannot work: who takes over, for how long, and what a crash must not change about it."""

from __future__ import annotations

import json
import sys
import time

import pytest

from tests.cli.place import DEADLINE, Place, until
from tests.cli.test_build import GOAL, TWO, plan, step
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


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_when_its_limit_has_ended_the_first_one_works_again(place: Place) -> None:
    agents(place, limit_in(12), "[[on]]\ntask = 1\ndelay = 12.5\nwrite = { 'f1' = 'x' }\n")
    place.segue("run", "plan.md", "--agent", "command,scripted")
    assert who(place) == [("1", "command"), ("1", "scripted"), ("2", "command"), ("3", "command")]


@pytest.mark.thorough
@pytest.mark.quick("You have hit your usage limit.")
@pytest.mark.parametrize("other", ["Claude AI usage limit reached|{later}", "You have hit your usage limit."])
def test_when_nobody_can_work_the_task_waits_for_the_first_who_can(place: Place, other: str) -> None:
    limited = other.format(later=int(time.time()) + 36_000)
    agents(place, limit_in(20), f"[[on]]\nattempt = 2\nlimit = '{limited}'\nexit_code = 1\n")
    place.segue("run", "plan.md", "--task", "1", "--agent", "command,scripted")
    assert who(place) == [("1", "command"), ("1", "scripted"), ("1", "command")]
    (parked,) = events(place, "run.parked")
    assert parked["until"] < time.time() + 3600
    assert len(events(place, "fallback")) == 1


@pytest.mark.thorough
def test_without_any_known_end_a_human_is_asked(place: Place) -> None:
    agents(
        place,
        "'You have hit your usage limit.'",
        "[[on]]\nlimit = 'You have hit your usage limit.'\nexit_code = 1\n",
    )
    place.segue("run", "plan.md", "--task", "1", "--agent", "command,scripted", code=3)
    assert who(place) == [("1", "command"), ("1", "scripted")]
    assert events(place, "run.parked") == []


@pytest.mark.quick("verify-verify")
@pytest.mark.parametrize(
    ("role", "phase"), [("plan", "outline"), ("verify", "verify"), ("research", "search")]
)
def test_every_role_of_a_build_can_fall_back(place: Place, role: str, phase: str) -> None:
    search = (
        '[[on]]\nphase = "verify"\ntask = 1\nattempt = 1\n'
        'verdict = { unmet = "all", action = "WEB_SEARCH", request = "how" }\n'
    )
    place.script(
        f"[[on]]\nphase = '{phase}'\nattempt = 1\nlimit = 'You have hit your usage limit.'\nexit_code = 1\n"
        + plan(step("a"))
        + (search if role == "research" else "")
    )
    place.segue("run", GOAL, "--agent", f"{role}=scripted:one,scripted:two")
    rows = place.rows("select model from orchestrator_steps where phase = ? and gen = 1 order by seq", phase)
    assert [model for (model,) in rows][:2] == ["one", "two"]
    (event,) = events(place, "fallback")
    assert (event["agent"], event["next"], event["phase"]) == ("scripted:one", "scripted:two", phase)


@pytest.mark.thorough
def test_fallbacks_are_launches_too(place: Place) -> None:
    agents(place, limit_in(3600))
    place.segue("run", "plan.md", "--agent", "command,scripted", code=3, SEGUE_LIMITS__LAUNCHES="1")
    assert who(place) == [("1", "command")]
    place.segue("resume", code=3, SEGUE_LIMITS__LAUNCHES="2")
    assert who(place) == [("1", "command"), ("1", "scripted")], "the second launch was the last"


@pytest.mark.thorough
def test_a_limit_while_planning_parks_the_run_also_across_a_kill(place: Place) -> None:
    limit = f"Claude AI usage limit reached|{int(time.time()) + 3600}"
    place.script(f"[[on]]\nphase = 'outline'\nattempt = 1\nlimit = '{limit}'\nexit_code = 1\n" + TWO)
    for command in (["run", GOAL], ["resume"]):
        process = place.start(*command)
        until(lambda: place.started("run/park/outline/1"), "the run is parked")
        until(lambda: place.json("status")[0]["state"] == "parked", "the run says so")
        process.kill()
        process.wait(DEADLINE)
    assert place.rows("select key, gen from orchestrator_steps where phase = 'outline'") == [
        ("run/outline/1", 1)
    ]


def test_cloud_agents_and_local_ones_are_not_mixed(place: Place) -> None:
    place.script("")
    place.env["CURSOR_API_KEY"] = "crsr_0123456789"
    done = place.segue("run", GOAL, "--agent", "scripted", "--agent", "plan=cursor-cloud", code=2)
    assert "cannot take turns" in done.stderr


@pytest.mark.thorough
def test_roles_of_the_command_line_hold_after_resume(place: Place) -> None:
    place.script("[[on]]\nphase = 'execute'\ntask = 2\nattempt = 1\nexit_code = 1\n" + TWO)
    once = {"SEGUE_LIMITS__RESOLUTIONS": "0"}
    place.segue("run", GOAL, "--agent", "scripted:big", "--agent", "verify=scripted:small", code=3, **once)
    place.script(TWO)
    place.segue("resume")
    rows = place.rows(
        "select distinct phase, model from orchestrator_steps where model is not null order by 1"
    )
    assert rows == [("execute", "big"), ("outline", "big"), ("verify", "small")]
