"""Kill a build at any instant: the same plan, the same commits, nothing launched or asked twice."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from segue.system.files import exclusive
from tests.cli.place import DEADLINE, Place, processes_with, until
from tests.cli.test_build import GOAL, events, plan, step, tasks

FLOW = (
    plan(step("a"), step("b"), step("c"), step("d"))
    + """
[[on]]
phase = "verify"
task = 1
attempt = 1
verdict = { unmet = "all", action = "WEB_SEARCH", request = "how to" }
delay = 0.05

[[on]]
phase = "verify"
task = 1
attempt = 2
verdict = { unmet = "all", action = "RUN_DIAGNOSTIC", request = "pytest --version" }

[[on]]
phase = "verify"
task = 1
verdict = { caveats = ["a is A"] }

[[on]]
phase = "replan"
task = 1
delay = 0.05
plan = '{"steps": [{"keep": "2"}, {"title": "Make c for A", "description": "C.", "build_phase": "backend"}]}'

[[on]]
phase = "verify"
task = 2
verdict = { unmet = "all", action = "MODIFY_PLAN", request = "b is moot" }

[[on]]
phase = "replan"
task = 2
plan = '{"steps": [{"title": "Make e", "description": "E.", "build_phase": "testing"}, {"keep": "5"}]}'

[[on]]
phase = "execute"
append = { "started-{task}" = "x" }
delay = 0.05
write = { "f{task}" = "the whole of {task}" }

[[on]]
phase = "resolve"
append = { "mended-{task}" = "round {attempt} of {task}" }
"""
)


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait(DEADLINE)


def steps(place: Place) -> list[str]:
    """Every step that was taken, with its generation."""
    return [
        f"{key}#{gen}" for key, gen in place.rows("select key, gen from orchestrator_steps order by key, gen")
    ]


def shown(place: Place) -> dict[str, Any]:
    """What must not depend on kills."""
    return {
        "tasks": tasks(place),
        "subjects": place.subjects(),
        "steps": [step for step in steps(place) if "/base" not in step],
        "files": {path.name: path.read_text() for path in sorted(place.repo.iterdir()) if path.is_file()},
        "searches": [event["query"] for event in events(place, "search")],
        "diagnostics": [event["command"] for event in events(place, "diagnostic")],
        "plans": [event["titles"] for event in events(place, "plan.revised")],
    }


@pytest.fixture(scope="module")
def unkilled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    place = Place.make(tmp_path_factory.mktemp("unkilled"))
    place.script(FLOW)
    place.segue("run", GOAL)
    return shown(place)


@pytest.mark.thorough
def test_the_flow_that_is_killed_has_everything_in_it(unkilled: dict[str, Any]) -> None:
    assert unkilled["tasks"] == {"1": "done", "6": "done", "5": "done"}
    assert unkilled["searches"] == ["how to"]
    assert unkilled["diagnostics"] == ["pytest --version"]
    assert len(unkilled["plans"]) == 3


@pytest.mark.thorough
@pytest.mark.torture
@pytest.mark.parametrize("seed", range(1))
def test_random_kills_change_nothing(tmp_path: Path, seed: int, unkilled: dict[str, Any]) -> None:
    place = Place.make(tmp_path)
    place.script(FLOW)
    dice = random.Random(seed)
    for _ in range(25):
        process = place.start("run", GOAL)
        killer = threading.Timer(dice.uniform(0.2, 1.5), process.kill)
        killer.start()
        code = process.wait(DEADLINE)
        killer.cancel()
        if code == 0:
            break
    place.segue("run", GOAL)
    assert shown(place) == unkilled
    assert list(processes_with(str(tmp_path))) == []


def knows(place: Place, sql: str) -> bool:
    """Whether the database knows something; it may not be there yet."""
    try:
        return bool(place.rows(sql))
    except sqlite3.OperationalError:
        return False


@pytest.mark.quick("select 1 from orchestrator_steps where key = 'task/2/replan/1'")
@pytest.mark.parametrize(
    "moment",
    [
        "select 1 from orchestrator_steps where key = 'run/outline/1' and state = 'done'",
        "select 1 from orchestrator_steps where key = 'run/revise/1'",
        "select 1 from orchestrator_steps where key = 'task/1/search/1'",
        "select 1 from orchestrator_steps where key = 'task/1/diagnostic/2'",
        "select 1 from orchestrator_steps where key = 'task/1/verify/3'",
        "select 1 from orchestrator_steps where key = 'task/1/replan/1' and state = 'done'",
        "select 1 from orchestrator_steps where key = 'task/2/replan/1'",
        "select 1 from orchestrator_steps where key = 'task/2/revise/1'",
        "select 1 from orchestrator_steps where key = 'task/2/end'",
    ],
)
def test_a_kill_at_a_turning_point_changes_nothing(
    place: Place, moment: str, unkilled: dict[str, Any]
) -> None:
    place.script(FLOW)
    process = place.start("run", GOAL)
    until(lambda: knows(place, moment) or process.poll() is not None, moment)
    kill(process)
    place.segue("resume", code=None)
    assert shown(place) == unkilled


@pytest.mark.thorough
def test_a_kill_between_the_journal_and_the_file_changes_nothing(
    place: Place, unkilled: dict[str, Any]
) -> None:
    place.script(FLOW)
    process = place.start("run", GOAL)
    until(lambda: place.started("task/2/execute/1"), "the first step is over")
    (lock,) = (place.database.parent / "prompts").glob("*.lock")
    written = "select 1 from orchestrator_steps where key = 'task/2/revise/1' and state = 'done'"
    with exclusive(lock):  # the plan cannot be written to disk meanwhile
        until(lambda: knows(place, written), "the plan is revised in the journal")
        kill(process)
    assert "2" in tasks(place), "the file has the old plan"
    place.segue("resume")
    assert shown(place) == unkilled


@pytest.mark.thorough
def test_a_kill_between_the_file_and_the_end_changes_nothing(place: Place, unkilled: dict[str, Any]) -> None:
    place.script(FLOW)
    process = place.start("run", GOAL)
    until(lambda: place.started("task/2/end"), "the step is ended")
    kill(process)
    with closing(sqlite3.connect(place.database)) as database, database:
        database.execute("delete from orchestrator_steps where key = 'task/2/end'")
    place.segue("resume")
    assert shown(place) == unkilled
    views = {view["key"]: view["state"] for view in place.json("status", place.last_run())["tasks"]}
    assert views["2"] == "replanned"


def test_a_judge_at_work_is_adopted_with_the_checks_it_was_told_of(place: Place) -> None:
    place.script(plan(step("a")) + "[[on]]\nphase = 'verify'\nwait_for = 'GATE'\n")
    place.more_config('checks = [["date", "+%N"]]\n')
    process = place.start("run", GOAL)
    at_work = "select 1 from orchestrator_steps where key = 'task/1/verify/1'"
    until(lambda: knows(place, at_work), "the judge works")
    kill(process)
    place.gate.touch()
    place.segue("resume")
    assert tasks(place) == {"1": "done"}
    assert len(events(place, "check")) == 1, "the checks were not run again"
    assert place.rows("select count(*) from orchestrator_steps where phase = 'verify'") == [(1,)]
    assert place.rows("select count(*) from orchestrator_events where type = 'step.adopted'") == [(1,)]
