"""`segue run github:…`: issues are worked on, people are told, and no kill tells them twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.place import DEADLINE, Place, until
from tests.fakes.github import Github
from tests.fakes.serving import serve

ISSUES: list[dict[str, Any]] = [
    {"title": "Show prices with tax", "body": "- [ ] A test covers it", "labels": ["ready"]},
    {"title": "Print receipts", "labels": ["ready"], "blocked_by": [1]},
    {"title": "Not ready"},
]
NAMED = "github:acme/shop?label=ready"


@pytest.fixture
def hub(place: Place) -> Iterator[Github]:
    """GitHub with three issues, for the place."""
    hub = Github({"repos": {"acme/shop": {"labels": ["ready"], "issues": ISSUES}}})
    with serve(hub.app) as url:
        place.env |= {"GITHUB_API_URL": url, "GITHUB_TOKEN": "a-token"}
        yield hub


def comments(hub: Github, number: int) -> list[str]:
    return [one["body"].split("\n", 1)[1] for one in hub.repos["acme/shop"].issues[number]["comments"]]


def test_issues_are_worked_on_like_a_plan(place: Place, hub: Github) -> None:
    listed = json.loads(place.segue("task", "list", NAMED, "--json").stdout)["data"]
    assert [task["key"] for task in listed["tasks"]] == ["1", "2"]
    shown = place.segue("run", NAMED, "--agent", "scripted", "--dry-run").stdout
    assert "A test covers it" in shown
    assert comments(hub, 1) == [], "looking tells nobody anything"
    place.segue("run", NAMED, "--agent", "scripted")
    run = place.rows("select id from orchestrator_runs")[0][0]
    assert place.subjects() == ["Task 1: Show prices with tax", "Task 2: Print receipts"]
    for number in (1, 2):
        (comment,) = comments(hub, number)
        assert comment.startswith(f"Segue has done this (run `{run}`). Commit ")
    assert comments(hub, 3) == []
    assert "No pending tasks" in place.segue("run", NAMED, "--agent", "scripted").stdout
    status = json.loads(place.segue("status", "last", "--json").stdout)["data"]
    assert status["source"] == NAMED


def test_a_person_is_asked_on_the_issue(place: Place, hub: Github) -> None:
    words = "@acme/everybody, see #1. ```` done"
    place.config(f'agent = "command"\nagents.command.argv = ["sh", "-c", "echo \'{words}\' >&2; exit 1"]\n')
    place.segue("run", NAMED, code=3)
    asked = comments(hub, 1)[-1]
    assert asked.startswith("Segue needs a person here")
    before, fenced, after = asked.split("\n`````")
    assert words in fenced, "an agent mentions nobody"
    assert "@acme" not in before + after
    place.segue("task", "accept", "1")
    assert comments(hub, 1)[0].startswith("Segue has done this")


def test_an_issue_that_is_edited_at_work_is_done_as_it_was(place: Place, hub: Github) -> None:
    place.script(
        '[[on]]\ntask = "1"\nwait_for = "GATE"\nwrite = { f1 = "x" }\n[[on]]\nwrite = { f2 = "x" }\n'
    )
    running = place.start("run", NAMED)
    until(lambda: place.started("task/1/execute/1"), "work on the first issue")
    issues = hub.repos["acme/shop"].issues
    issues[1]["body"], issues[2]["state"] = "Something else altogether.", "closed"
    place.gate.touch()
    assert running.wait(DEADLINE) == 0
    assert [one["task"] for one in place.events("task.ended") if one["done"]] == ["1", "2"]
    prompts = "".join(str(row) for row in place.rows("select text from orchestrator_prompts"))
    assert "A test covers it" in prompts
    assert "Something else" not in prompts
    again = place.segue("run", NAMED)
    assert "No pending tasks" in again.stdout
    assert "Task 1 was changed after it was done, and stays done." in again.stderr


def test_a_kill_tells_nobody_twice(place: Place, hub: Github) -> None:
    place.script('[[on]]\nwrite = { "f{task}" = "x" }\n')
    hub.app.faults.add({"on": "POST /repos/*/*/issues/*/comments", "cut": "after"})
    for more in (4, 9):
        before = len(hub.app.log)
        running = place.start("run", NAMED)
        until(lambda: running.poll() is not None or len(hub.app.log) >= before + more, "requests")  # noqa: B023
        running.kill()
        running.wait(DEADLINE)
    place.segue("run", NAMED)
    for number in (1, 2):
        (comment,) = comments(hub, number)
        assert comment.startswith("Segue has done this")
    assert place.subjects() == ["Task 1: Show prices with tax", "Task 2: Print receipts"]
