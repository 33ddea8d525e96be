"""`segue proof` as people and programs call it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.place import Place
from tests.reports.proofs import RUN, write_proofs


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place.make(tmp_path)
    place.database.parent.mkdir(parents=True)
    write_proofs(str(place.database))
    place.own_all_runs()
    return place


def test_a_card_per_task(place: Place) -> None:
    text = place.segue("proof").stdout
    assert [line for line in text.splitlines() if line.startswith("Task ")] == [
        "Task T001: Log in [PARTIAL (tested)]",
        "Task T002: Log out [FAIL]",
        "Task T003: Choose a colour [accepted by person]",
        "Task T004: Deploy [pending]",
    ]
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    assert text.count("Task T") == place.segue("proof", "last").stdout.count("Task T")


def test_programs_read_the_levels(place: Place) -> None:
    data = place.json("proof", RUN[:12])
    shown = [(card["task"], card["proof"], card["state"]) for card in data["tasks"]]
    assert (data["run"], shown) == (
        RUN,
        [
            ("T001", "tested", "done"),
            ("T002", None, "needs_human"),
            ("T003", "changed", "done"),
            ("T004", None, "pending"),
        ],
    )
    tasks = place.json("status", "last")["tasks"]
    assert [(task["key"], task["proof"], task["state"]) for task in tasks] == shown
    assert tasks[0]["tampering"] == 1
    assert [task["marks"] for task in tasks] == [card["marks"] for card in data["tasks"]]
    assert tasks[2]["marks"] == ["accepted by person"]
    assert {"kind", "proof", "marks", "blocked_by"} <= tasks[0].keys()
    assert {"level", "marks", "shown", "not_shown", "look_at"} <= data["tasks"][0].keys()


def test_one_task_as_data_and_markdown(place: Place) -> None:
    [card] = place.json("proof", "last", "T002")["tasks"]
    assert card["missing"][0] == "checks failed: make lint"
    assert place.segue("proof", "last", "T002", "--markdown").stdout.startswith("### · Task T002")


def test_who_accepted_a_task_is_recorded(tmp_path: Path) -> None:
    place = Place.make(tmp_path)
    place.git("config", "user.name", "Ada Lovelace")
    place.script('[[on]]\nsay = "I claim to be done."\n')
    place.segue("run", "plan.md", code=3)
    place.segue("task", "accept", "1")
    [card] = place.json("proof", "last", "1")["tasks"]
    assert (card["level"], card["decided_by"]) == ("changed", ["Ada Lovelace"])
    assert (card["marks"], card["conclusion"]) == (["accepted by Ada Lovelace"], "accepted by Ada Lovelace")
