"""What is said of one run is the same everywhere, and people, tests and the page can label it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from segue.store import connect
from tests.cli.place import Place
from tests.parts.lab.test_replay import record_checks
from tests.web.place import serving


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A place with one run of one task, which is done after two fixes."""
    found = Place.make(tmp_path_factory.mktemp("agreement") / "place")
    record_checks(found)
    return found


def label_by_tests(place: Place, *args: str) -> Any:
    return json.loads(place.segue("label", "tests", *args).stdout)["data"]


def query(place: Place, sql: str) -> list[dict[str, Any]]:
    with connect(str(place.database), read_only=True) as store:
        return store.query(sql)


def test_durations_agree_between_status_report_and_tables(place: Place) -> None:
    [setting] = place.json("report", "compare")["settings"]
    [run] = query(place, "SELECT seconds, run_id FROM segue_runs")
    assert run["seconds"] == pytest.approx(setting["seconds"]["mean"], abs=0.001), "nobody paused"
    [shown] = place.json("status", "last")["tasks"]
    [task] = query(place, "SELECT seconds FROM segue_tasks")
    assert task["seconds"] == pytest.approx(shown["seconds"], abs=0.001)
    steps = {
        row["phase"] + str(row["attempt"]): row["seconds"]
        for row in place.json("report", "run", "last")["steps"]
    }
    for attempt in query(place, "SELECT phase, attempt, seconds FROM segue_attempts"):
        assert attempt["seconds"] <= steps[f"{attempt['phase']}{attempt['attempt']}"]
    assert sum(steps.values()) <= task["seconds"] <= run["seconds"]


def test_recoveries_join_one_to_one_by_generation(place: Place) -> None:
    joined = query(
        place,
        "SELECT r.step, r.gen FROM segue_recoveries r JOIN segue_failed_attempts f"
        " ON f.run_id = r.run_id AND f.step = r.step AND f.gen = r.gen",
    )
    assert len(joined) == len(query(place, "SELECT 1 FROM segue_recoveries")) == 2


def test_hidden_tests_label_the_commit_of_each_task(place: Place) -> None:
    good = label_by_tests(place, "last", "--json", "--", "grep", "-q", "final", "made-1.txt")
    assert [(one["task"], one["good"]) for one in good["labels"]] == [("1", True)]
    bad = label_by_tests(place, "last", "--task", "1", "--json", "--", "grep", "-q", "draft", "made-1.txt")
    assert [(one["good"], one["reason"]) for one in bad["labels"]] == [(False, "exit code 1: ")]
    [kept] = query(place, "SELECT origin, good FROM segue_labels")
    assert (kept["origin"], bool(kept["good"])) == ("tests", False), "the last word counts"
    refused = place.segue("label", "tests", "last", "--task", "9", "--", "true", code=2)
    assert "no task '9' that is done" in refused.stderr
    assert "could not be run" in place.segue("label", "tests", "last", "--", "no-such-command", code=2).stderr


def test_the_buttons_of_the_page_label_a_task(tmp_path: Path) -> None:
    place = Place.make(tmp_path / "place")
    record_checks(place)
    with serving(place) as served:
        page = served.get("/verification").text
        [task] = served.data("/verification")["to_label"]
        action = f"/runs/{task['run_id']}/tasks/1/label"
        assert f'action="{action}"' in page
        assert served.post(action, good="perhaps").status_code == 400
        said = served.post(action, good="bad", reason="It loses a row.").json()["data"]["said"]
        assert said.endswith("is labelled wrong.")
        assert served.data("/verification")["to_label"] == []
    [label] = query(place, "SELECT good, origin, reason FROM segue_labels")
    assert (bool(label["good"]), label["origin"], label["reason"]) == (False, "person", "It loses a row.")
