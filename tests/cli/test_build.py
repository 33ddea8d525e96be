"""One prompt in, a built project and a dataset out, with the scripted agent in every role."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.place import Place

GOAL = "Build a small todo app"


def plan(*steps: dict[str, Any]) -> str:
    """A script entry that makes a plan."""
    return f"[[on]]\nphase = 'outline'\nplan = '''{json.dumps({'steps': list(steps)})}'''\n"


def step(name: str, phase: str = "backend", **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "title": f"Make {name}",
        "description": f"There is {name}.",
        "build_phase": phase,
        **more,
    }


TWO = plan(
    step("a", "schema", acceptance=["a works", "a is tested"]), step("b", "frontend", depends_on=["a"])
)


def events(place: Place, kind: str) -> list[dict[str, Any]]:
    return place.events(kind)


def keys(place: Place, task: str) -> list[str]:
    found = place.rows("select key from orchestrator_steps where task = ? order by seq", task)
    return [key.removeprefix(f"task/{task}/") for (key,) in found]


def prompt_of(place: Place, key: str) -> str:
    sql = (
        "select p.text from orchestrator_prompts p join orchestrator_events e "
        "on e.data->>'digest' = p.digest where e.step = ? and e.type = 'prompt'"
    )
    ((text,),) = place.rows(sql, key)
    return str(text)


def tasks(place: Place) -> dict[str, str]:
    return {task["key"]: task["status"] for task in place.json("task", "list", GOAL)["tasks"]}


def test_one_prompt_becomes_a_planned_built_and_verified_project(place: Place) -> None:
    place.script(TWO)
    place.segue("run", GOAL)
    assert place.subjects() == ["Task 1: Make a", "Task 2: Make b"]
    rows = place.rows(
        "select task, phase, build_phase, agent from orchestrator_steps where phase = 'execute'"
    )
    assert rows == [("1", "execute", "schema", "scripted"), ("2", "execute", "frontend", "scripted")]
    asked = prompt_of(place, "task/1/verify/1")
    assert "1/AC2" in asked
    assert "a is tested" in asked
    assert GOAL in prompt_of(place, "task/2/execute/1")
    assert place.segue("run", GOAL).stdout == "No pending tasks to process.\n"


@pytest.mark.parametrize(
    ("command", "allowed", "told"),
    [
        ("pytest --version", True, "exit code"),
        ("pytest; rm -rf .", False, "was not run"),
    ],
)
def test_a_diagnostic_is_run_if_the_list_allows_it(
    place: Place, command: str, allowed: bool, told: str
) -> None:
    place.script(
        TWO
        + f"""
[[on]]
phase = "verify"
task = 1
attempt = 1
verdict = {{ unmet = "all", action = "RUN_DIAGNOSTIC", request = "{command}" }}
"""
    )
    place.segue("run", GOAL)
    (event,) = events(place, "diagnostic")
    assert (event["command"], event["allowed"]) == (command, allowed)
    assert told in prompt_of(place, "task/1/resolve/1")
    assert (place.repo / "notes" / "task-1.md").exists(), "nothing was deleted"


def test_resolutions_are_limited_to_five(place: Place) -> None:
    place.script(
        plan(step("a")) + '[[on]]\nphase = "verify"\nverdict = { unmet = "all", evidence = "nope" }\n'
    )
    done = place.segue("run", GOAL, code=3)
    assert sum(key.startswith("resolve/") for key in keys(place, "1")) == 5
    assert sum(key.startswith("verify/") for key in keys(place, "1")) == 6
    assert "nope" in done.stderr


def test_a_plan_that_cannot_be_used_is_asked_for_once_more(place: Place) -> None:
    answer = "I would rather not."
    complaint = "no JSON object"
    place.script(f"[[on]]\nphase = 'outline'\nattempt = 1\nplan = '''{answer}'''\n" + TWO)
    place.segue("run", GOAL)
    assert complaint in prompt_of(place, "run/outline/2")
    assert tasks(place) == {"1": "done", "2": "done"}
