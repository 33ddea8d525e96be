"""One prompt in, a built project and a dataset out, with the scripted agent in every role."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.place import Place, until

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


@pytest.mark.thorough
def test_a_new_folder_becomes_a_repository(place: Place) -> None:
    place.script(TWO)
    new = place.root / "new"
    place.segue("run", GOAL, "--repo", str(new))  # git knows nobody here
    assert (new / "notes" / "task-1.md").exists()
    authors = place.git("-C", str(new), "log", "--format=%an").split()
    assert set(authors) == {"Segue"}


@pytest.mark.thorough
def test_a_search_brings_findings_with_their_sources_and_the_retry_passes(place: Place) -> None:
    place.script(
        TWO
        + """
[[on]]
phase = "verify"
task = 1
attempt = 1
verdict = { unmet = ["1/AC1"], evidence = "no policy", action = "WEB_SEARCH", request = "row level security" }

[[on]]
phase = "search"
say = "Policies are described at https://docs.example.com/policies."
"""
    )
    place.segue("run", GOAL)
    assert keys(place, "1")[:8] == [
        "base",
        "execute/1",
        "commit/execute",
        "check/1",
        "verify/1",
        "search/1",
        "resolve/1",
        "commit/fix-1",
    ]
    (search,) = events(place, "search")
    assert search["query"] == "row level security"
    assert [hit["url"] for hit in search["results"]] == ["https://docs.example.com/policies"]
    resolved = prompt_of(place, "task/1/resolve/1")
    assert "https://docs.example.com/policies" in resolved
    assert "no policy" in resolved
    verdicts = [event for event in events(place, "verdict") if event["criteria"]]
    assert [(event["result"], event["action"]) for event in verdicts] == [
        ("PARTIAL", "WEB_SEARCH"),
        ("PASS", "PROCEED"),
        ("PASS", "PROCEED"),
    ]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("command", "allowed", "told"),
    [
        ("pytest --version", True, "exit code"),
        ("rm -rf .", False, "was not run"),
        ("pytest; rm -rf .", False, "was not run"),
        ("", False, "was not run"),
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


@pytest.mark.thorough
def test_a_step_that_the_judge_skips_says_why(place: Place) -> None:
    place.script(
        TWO
        + '[[on]]\nphase = "verify"\ntask = 1\n'
        + 'verdict = { unmet = "all", action = "SKIP", request = "moot" }\n'
    )
    place.segue("run", GOAL)
    assert tasks(place) == {"1": "skipped", "2": "done"}
    assert [view["state"] for view in place.json("status", place.last_run())["tasks"]] == ["skipped", "done"]
    (ended, _) = events(place, "task.ended")
    assert ended["reason"] == "skipped: moot"


@pytest.mark.thorough
def test_a_plan_that_no_longer_fits_is_made_anew_and_what_is_done_stays(place: Place) -> None:
    new = json.dumps({"steps": [step("c"), {"keep": "3"}]})
    place.script(
        plan(step("a"), step("b"), step("z"))
        + f"""
[[on]]
phase = "verify"
task = 2
verdict = {{ unmet = "all", action = "MODIFY_PLAN", request = "b makes no sense" }}

[[on]]
phase = "replan"
plan = '''{new}'''
"""
    )
    place.segue("run", GOAL)
    assert tasks(place) == {"1": "done", "4": "done", "3": "done"}, "the order of the new plan"
    (first, second) = events(place, "plan.revised")
    assert [one["title"] for one in second["old"]] == ["Make a", "Make b", "Make z"]
    assert [one["title"] for one in second["new"]] == ["Make a", "Make c", "Make z"]
    assert second["reason"] == "b makes no sense"
    assert first["old"] == []
    views = {view["key"]: view["state"] for view in place.json("status", place.last_run())["tasks"]}
    assert views == {"1": "done", "2": "replanned", "3": "done", "4": "done"}


@pytest.mark.thorough
def test_a_step_that_the_new_plan_keeps_comes_again(place: Place) -> None:
    place.script(
        TWO
        + """
[[on]]
phase = "verify"
task = 1
attempt = 1
verdict = { unmet = "all", action = "MODIFY_PLAN", request = "look again" }

[[on]]
phase = "replan"
attempt = 1
plan = '{"steps": [{"keep": "2"}, {"keep": "1"}]}'
"""
    )
    # The judge's answer depends on the attempt's number, which starts anew: so the plan is looked at until
    # the limit is reached.
    place.more_config("limits.replans = 2\n")
    done = place.segue("run", GOAL, code=3)
    assert "Replan limit (" in done.stderr
    assert len(events(place, "plan.revised")) == 2, "the first plan, and one that puts step 2 first"
    assert tasks(place) == {"2": "done", "1": "pending"}


@pytest.mark.thorough
def test_caveats_lead_to_a_look_at_the_rest_of_the_plan(place: Place) -> None:
    place.script(
        TWO
        + """
[[on]]
phase = "verify"
task = 1
verdict = { caveats = ["a is called A"] }

[[on]]
phase = "replan"
plan = '{"steps": [{"title": "Make b for A", "description": "As b.", "build_phase": "frontend"}]}'
"""
    )
    place.segue("run", GOAL)
    assert place.subjects() == ["Task 1: Make a", "Task 3: Make b for A"]
    assert "a is called A" in prompt_of(place, "task/1/replan/1")
    assert [event["reason"] for event in events(place, "plan.revised")] == ["the first plan", "a is called A"]


@pytest.mark.thorough
def test_resolutions_are_limited_to_five(place: Place) -> None:
    place.script(
        plan(step("a")) + '[[on]]\nphase = "verify"\nverdict = { unmet = "all", evidence = "nope" }\n'
    )
    done = place.segue("run", GOAL, code=3)
    assert sum(key.startswith("resolve/") for key in keys(place, "1")) == 5
    assert sum(key.startswith("verify/") for key in keys(place, "1")) == 6
    assert "nope" in done.stderr


@pytest.mark.quick("I would rather not.-no JSON object")
@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ("I would rather not.", "no JSON object"),
        ('{"steps": []}', "no steps"),
        (json.dumps({"steps": [step(str(n)) for n in range(500)]}), "500 steps"),
        (json.dumps({"steps": [step("a", "cooking")]}), "cooking"),
        (
            json.dumps({"steps": [step("a", depends_on=["b"]), step("b", depends_on=["a"])]}),
            "wait for each other",
        ),
    ],
)
def test_a_plan_that_cannot_be_used_is_asked_for_once_more(place: Place, answer: str, complaint: str) -> None:
    place.script(f"[[on]]\nphase = 'outline'\nattempt = 1\nplan = '''{answer}'''\n" + TWO)
    place.segue("run", GOAL)
    assert complaint in prompt_of(place, "run/outline/2")
    assert tasks(place) == {"1": "done", "2": "done"}


@pytest.mark.thorough
def test_two_unusable_plans_are_a_matter_for_a_human(place: Place) -> None:
    place.script("[[on]]\nphase = 'outline'\nplan = 'no'\n")
    done = place.segue("run", GOAL, code=3)
    assert "No plan could be made" in done.stderr
    place.script(TWO)
    place.segue("resume")
    assert tasks(place) == {"1": "done", "2": "done"}


@pytest.mark.thorough
def test_a_verdict_that_names_an_unknown_action_is_asked_for_again(place: Place) -> None:
    wrong = {"criteria": [{"key": "task", "met": False, "evidence": "x"}], "action": "PANIC", "request": ""}
    place.script(
        plan(step("a"))
        + f"[[on]]\nphase = 'verify'\nattempt = 1\nsay = '''Well. {json.dumps(wrong)} So.'''\n"
    )
    place.segue("run", GOAL)
    assert "PANIC" in prompt_of(place, "task/1/verify/2")


@pytest.mark.thorough
def test_checks_of_the_build_phase_are_evidence(place: Place) -> None:
    place.script(plan(step("a", "schema"), step("b", "frontend")))
    place.more_config('smoke.schema = [["git", "--version"]]\nsmoke.frontend = [["git", "frobnicate"]]\n')
    done = place.segue("run", GOAL, code=3)
    assert "frobnicate" in done.stderr
    checks = events(place, "check")
    assert [(check["task"], check["exit_code"] == 0) for check in checks[:2]] == [("1", True), ("2", False)]
    errors = [error for error in events(place, "error") if error["kind"] == "CHECK_ERROR"]
    assert errors
    assert errors[0]["build_phase"] == "frontend"


@pytest.mark.thorough
def test_failures_are_stored_as_normalised_errors(place: Place) -> None:
    place.script(plan(step("a")) + "[[on]]\nphase = 'execute'\nstderr = 'boom at line 12'\nexit_code = 3\n")
    place.segue("run", GOAL)
    (error,) = events(place, "error")
    assert (error["kind"], error["exit_code"], error["task"]) == ("EXIT_ERROR", 3, "1")
    assert "boom at line 12" in error["stderr_tail"]
    assert error["signature"]


@pytest.mark.thorough
def test_a_killed_build_goes_on_without_planning_again(place: Place) -> None:
    slow = "[[on]]\nphase = 'execute'\ntask = 2\nwait_for = 'GATE'\nwrite = { 'b.txt' = 'all of b' }\n"
    place.script(TWO + slow)
    running = place.start("run", GOAL)
    until(lambda: place.started("task/2/execute/1"), "the second step is worked on")
    running.kill()
    running.wait()
    place.gate.touch()
    place.segue("resume")
    assert tasks(place) == {"1": "done", "2": "done"}
    assert place.rows("select count(*) from orchestrator_steps where phase = 'outline'") == [(1,)]
    assert place.rows("select count(*) from orchestrator_steps where phase = 'execute'") == [(2,)]


def test_a_dry_run_shows_the_prompt_that_asks_for_the_plan(place: Place) -> None:
    place.script(TWO)
    shown = place.segue("run", GOAL, "--dry-run").stdout
    assert GOAL in shown
    assert not place.database.exists()
