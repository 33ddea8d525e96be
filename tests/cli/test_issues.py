"""`segue run github:…`: issues are worked on, people are told, and no kill tells them twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.place import DEADLINE, Place, until
from tests.parts.sim.hub_desk import HubDesk, open_desk

ISSUES: list[dict[str, Any]] = [
    {"title": "Show prices with tax", "body": "- [ ] A test covers it", "labels": ["ready"], "user": "bot"},
    {"title": "Print receipts", "labels": ["ready"], "blocked_by": [1], "user": "bot"},
    {"title": "Not ready", "user": "bot"},
]
NAMED = ("github:acme/shop", "--label", "ready")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[HubDesk]:
    (tmp_path / "hub").mkdir()
    with open_desk(tmp_path / "hub", issues=ISSUES) as desk:
        yield desk


@pytest.fixture
def shop(place: Place, desk: HubDesk) -> Place:
    place.env |= {"GITHUB_API_URL": desk.url, "GITHUB_TOKEN": "bot-token"}
    return place


def show(desk: HubDesk) -> dict[int, tuple[list[str], list[str]]]:
    """Return labels and comments of each issue."""
    issues = desk.bot.get("/_sim/state").json()["repos"]["acme/shop"]["issues"]
    return {
        one["number"]: (one["labels"], [comment["body"].split("\n")[1] for comment in one["comments"]])
        for one in issues
    }


def test_issues_are_worked_on_like_a_plan(shop: Place, desk: HubDesk) -> None:
    listed = json.loads(shop.segue("task", "list", *NAMED, "--json").stdout)["data"]
    assert [task["key"] for task in listed["tasks"]] == ["1", "2"]
    shown = shop.segue("run", *NAMED, "--agent", "scripted", "--dry-run").stdout
    assert "A test covers it" in shown
    assert show(desk)[1] == (["ready"], []), "looking tells nobody anything"
    shop.segue("run", *NAMED, "--agent", "scripted")
    run = shop.rows("select id from orchestrator_runs")[0][0]
    assert shop.subjects() == ["Task 1: Show prices with tax", "Task 2: Print receipts"]
    for number in (1, 2):
        labels, comments = show(desk)[number]
        assert labels == ["ready", "segue:done"]
        assert [comment.split(" Commit")[0] for comment in comments] == [
            f"Segue has done this (run `{run}`)."
        ]
    assert show(desk)[3] == ([], [])
    assert "No pending tasks" in shop.segue("run", *NAMED, "--agent", "scripted").stdout
    status = json.loads(shop.segue("status", "last", "--json").stdout)["data"]
    assert status["source"] == "github:acme/shop?label=ready"


def test_a_person_is_asked_on_the_issue(shop: Place, desk: HubDesk) -> None:
    shop.config('agent = "command"\nagents.command.argv = ["sh", "-c", "exit 1"]\n')
    shop.segue("run", *NAMED, code=3)
    labels, comments = show(desk)[1]
    assert labels == ["ready", "segue:needs-person"]
    assert comments[-1].startswith("Segue needs a person here")
    shop.segue("task", "accept", "1")
    assert show(desk)[1][0] == ["ready", "segue:done"]


@pytest.mark.thorough
def test_what_an_agent_says_on_an_issue_mentions_nobody(shop: Place, desk: HubDesk) -> None:
    words = "@acme/everybody, see #1. ```` done"
    shop.config(f'agent = "command"\nagents.command.argv = ["sh", "-c", "echo \'{words}\' >&2; exit 1"]\n')
    shop.segue("run", *NAMED, code=3)
    body = desk.bot.get("/repos/acme/shop/issues/1/comments").json()[-1]["body"]
    before, fenced, after = body.split("\n`````")
    assert words in fenced, body
    assert "@acme" not in before + after


@pytest.mark.thorough
def test_an_issue_that_is_edited_at_work_is_done_as_it_was(shop: Place, desk: HubDesk) -> None:
    shop.script('[[on]]\ntask = "1"\nwait_for = "GATE"\nwrite = { f1 = "x" }\n[[on]]\nwrite = { f2 = "x" }\n')
    running = shop.start("run", *NAMED)
    until(lambda: shop.database.exists() and shop.started("task/1/execute/1"), "work on the first issue")
    desk.bot.patch("/repos/acme/shop/issues/1", json={"body": "Something else altogether."})
    desk.bot.patch("/repos/acme/shop/issues/2", json={"state": "closed"})
    shop.gate.touch()
    assert running.wait(DEADLINE) == 0
    assert [one["task"] for one in shop.events("task.ended") if one["done"]] == ["1", "2"]
    prompts = "".join(str(row) for row in shop.rows("select text from orchestrator_prompts"))
    assert "A test covers it" in prompts
    assert "Something else" not in prompts
    again = shop.segue("run", *NAMED)
    assert "No pending tasks" in again.stdout
    assert "Task 1 was changed after it was done, and stays done." in again.stderr


@pytest.mark.thorough
@pytest.mark.slow("kills a run four times")
def test_no_kill_tells_anybody_twice(shop: Place, desk: HubDesk) -> None:
    shop.script('[[on]]\nphase = "execute"\nwrite = { "f{task}" = "x" }\n')
    faults = [
        {"fault": "slow", "on": f"{method} *", "times": 0, "delay": 0.2} for method in ("POST", "PATCH")
    ]
    for path in ("issues/*/comments", "issues/comments/*"):
        faults += [{"fault": "reset_after", "on": f"* /repos/*/*/{path}", "times": 1}]
    desk.bot.post("/_sim/faults", json=faults)

    def asked() -> int:
        return len(desk.bot.get("/_sim/log").json()["requests"])

    for more in (4, 7, 9, 12):
        before = asked()
        running = shop.start("run", *NAMED)
        until(lambda: running.poll() is not None or asked() >= before + more, "requests")  # noqa: B023
        running.kill()
        running.wait(DEADLINE)
    shop.segue("run", *NAMED)
    for number in (1, 2):
        labels, comments = show(desk)[number]
        assert labels == ["ready", "segue:done"]
        assert len(comments) == 1, comments
        assert comments[0].startswith("Segue has done this")
    assert shop.subjects() == ["Task 1: Show prices with tax", "Task 2: Print receipts"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan.md", "--label", "ready"), "--label has no effect: plan.md is not a list of issues"),
        ((*NAMED, "--plan-format", "strict"), "--plan-format has no effect"),
        (("github:acme/shop#1", "--query", "x"), "is one issue"),
        (("github:acme/shop#99",), "there is no such thing on GitHub"),
        (("github:acme/shop", "--label", "raedy"), "acme/shop has no label 'raedy'. It has: "),
    ],
)
def test_what_has_no_effect_is_refused(shop: Place, arguments: tuple[str, ...], words: str) -> None:
    refused = shop.segue("run", *arguments, "--agent", "scripted", code=2)
    assert words in refused.stderr


def test_the_source_of_the_settings_can_be_narrowed(shop: Place) -> None:
    shop.config('source = "github:acme/shop"\n')
    listed = json.loads(shop.segue("task", "list", "--label", "ready", "--json").stdout)["data"]
    assert [task["key"] for task in listed["tasks"]] == ["1", "2"]


def test_a_table_is_run(place: Place) -> None:
    (place.repo / "tasks.csv").write_text("id,title,depends_on\na,Add it,\nb,Use it,a\n")
    place.git("add", "--all")
    place.git("commit", "--quiet", "-m", "tasks")
    place.segue("run", "tasks.csv", "--agent", "scripted")
    assert place.subjects()[-2:] == ["Task a: Add it", "Task b: Use it"]
    assert (place.repo / "tasks.csv").read_text().count("\n") == 3
