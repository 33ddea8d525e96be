"""Is verification right? Figures by hand, whose word counts, and how many labels are missing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from segue.domain.errors import UsageError
from segue.parts.lab.labels.events import Label, LabelOrigin
from segue.parts.lab.labels.give import Labelled, give, read_csv
from segue.parts.lab.reports.build import build_reports, list_usual
from segue.parts.lab.reports.report import DatasetReport
from segue.parts.lab.reports.selection import Selection
from segue.parts.lab.reports.statistics import single_cases, subtract
from segue.parts.lab.reports.verification import find_missing, find_missing_pair
from segue.store import connect
from tests.reports.dataset import Written, WrittenRun


def work(
    data: Written, name: str, said: str, level: str | None, good: bool | None, origin: str = "person"
) -> WrittenRun:
    """A run of one task: what the judge said, the level it ended at, and what a label says."""
    run = data.run(name).execute().verify(1, said)
    run.event("task/1/verify/1", "verdict", task="1", result=said, action="PROCEED", reason="")
    more: dict[str, Any] = {"proof": {"level": level}} if level else {}
    run.end(level is not None, **more)
    if good is not None:
        run.event(None, "label", task="1", good=good, origin=origin)
    return run


def report(address: str) -> DatasetReport:
    with connect(address, read_only=True) as store:
        [found] = build_reports(store, ("verification",), Selection())
    return found


def rows(found: DatasetReport, name: str) -> list[dict[str, Any]]:
    return next((table.records() for table in found.tables if table.name == name), [])


def test_precision_recall_and_levels_by_hand(database: str) -> None:
    data = Written()
    for number in range(6):
        work(data, f"right-{number}", "PASS", "independent" if number < 4 else "tested", True)
    for number in range(4):
        work(data, f"believed-{number}", "PASS", "tested", False)
    work(data, "missed", "FAIL", None, True)
    work(data, "caught", "FAIL", None, False)
    work(data, "unlabelled", "PASS", "tested", None)
    found = report(data.write(database))
    [judge] = rows(found, "opinions")
    assert (judge["kind"], judge["name"]) == ("judge", "claude")
    assert judge["precision"] == single_cases(6, 10)
    assert judge["recall"] == single_cases(6, 7)
    assert judge["caught"] == single_cases(1, 5)
    levels = {row["level"]: row for row in rows(found, "wrong")}
    assert levels["tested"]["wrong"] == single_cases(4, 6)
    assert levels["tested"]["found_later"] == single_cases(0, 7)
    assert levels["independent"]["wrong"] == single_cases(0, 4)
    assert [(row["said"], row["good"]) for row in rows(found, "calibration")] == [
        ("PASS", single_cases(6, 10)),
        ("FAIL", single_cases(1, 2)),
    ]
    [compared] = rows(found, "levels_compared")
    assert compared["tested_minus_independent"] == subtract(single_cases(4, 6), single_cases(0, 4))
    assert found.notes[1].startswith("`tested` was wrong in 4/6 runs 67%")
    [table] = [table for table in found.tables if table.name == "opinions"]
    with connect(database, read_only=True) as store:
        counted = {(row["kind"], row["name"]): row for row in store.query(table.sql)}
    assert [counted["judge", "claude"][name] for name in ("labels", "passed", "passed_and_good", "good")] == [
        12, 10, 6, 7,
    ]  # fmt: skip


def test_what_git_finds_counts_as_the_least_that_was_wrong(database: str) -> None:
    """A repository's history never says that work is right, so no rate rests on it."""
    data = Written()
    for number in range(4):
        work(data, f"run-{number}", "PASS", "tested", None if number else False, "git")
    found = report(data.write(database))
    [level] = rows(found, "wrong")
    assert (level["wrong"].n, level["found_later"]) == (0, single_cases(1, 4))
    assert rows(found, "opinions") == []


def test_a_person_is_believed_before_others_and_the_last_word_counts(database: str) -> None:
    data = Written()
    run = work(data, "run", "PASS", "tested", False, "tests")
    run.event(None, "label", task="1", good=False, origin="person")
    run.event(None, "label", task="1", good=True, origin="person")
    found = report(data.write(database))
    assert [row["precision"] for row in rows(found, "opinions")] == [single_cases(1, 1)]
    [table] = [table for table in found.tables if table.name == "opinions"]
    with connect(database, read_only=True) as store:
        [counted] = store.query(table.sql)
    assert (counted["labels"], counted["good"]) == (1, 1), "the SQL believes the same"


def test_an_attempt_is_compared_with_what_was_said_of_it(database: str) -> None:
    data = Written()
    run = data.run("run").execute().verify(1, "FAIL", "RETRY")
    run.event("task/1/verify/1", "verdict", task="1", result="FAIL", action="RETRY", reason="")
    run.resolve(1).verify(2, "PASS")
    run.event("task/1/verify/2", "verdict", task="1", result="PASS", action="PROCEED", reason="")
    run.end().event(None, "label", task="1", good=False, origin="person", step="task/1/execute/1")
    [row] = rows(report(data.write(database)), "opinions")
    assert (row["precision"].n, row["caught"]) == (0, single_cases(1, 1))


def test_checks_are_rated_like_judges(database: str) -> None:
    data = Written()
    for number, (code, good) in enumerate(((0, True), (0, False), (0, False), (1, False))):
        run = data.run(f"run-{number}").execute()
        run.step("check").event("task/1/check/1", "check", task="1", command="pytest -q", exit_code=code)
        run.end(code == 0).event(None, "label", task="1", good=good, origin="tests")
    [row] = rows(report(data.write(database)), "opinions")
    assert (row["kind"], row["name"]) == ("check", "pytest -q")
    assert (row["precision"], row["recall"]) == (single_cases(1, 3), single_cases(1, 1))
    assert row["caught"] == single_cases(1, 3)


def test_without_labels_it_says_how_many_are_needed(database: str) -> None:
    data = Written()
    work(data, "run", "PASS", "tested", None)
    address = data.write(database)
    [note] = [note for note in report(address).notes if "labels per judge" in note]
    assert "About 62 labels" in note
    with connect(address, read_only=True) as store:
        assert "verification" not in list_usual(store)


def test_few_labels_need_more_and_many_need_none() -> None:
    assert find_missing(single_cases(2, 10)) > find_missing(single_cases(8, 40)) > 0
    assert find_missing(single_cases(40, 200)) == 0
    assert find_missing_pair(single_cases(10, 20), single_cases(0, 20)) < 40
    assert find_missing_pair(single_cases(4, 20), single_cases(4, 20)) > 200


def test_labels_come_in_once_and_only_for_what_is_there(database: str) -> None:
    data = Written()
    work(data, "run", "PASS", "tested", None)
    data.write(database)
    with connect(database) as store:
        table = "run_id,task,good,reason\nrun,1,bad,=1+1\n"
        assert asyncio.run(give(store, read_csv(table, "me"))) == 1
        assert asyncio.run(give(store, read_csv(table, "me"))) == 0
        [row] = store.query("SELECT * FROM segue_labels")
        assert (bool(row["good"]), row["origin"], row["labelled_by"], row["reason"]) == (
            False,
            "file",
            "me",
            "=1+1",
        )
        before = store.query("SELECT seconds, state FROM segue_runs")
        for wrong in ("nobody,1,good", "run,7,good", "run,1,maybe"):
            with pytest.raises(UsageError):
                asyncio.run(give(store, read_csv(f"run_id,task,good\n{wrong}\n")))
        said = Label("1", True, LabelOrigin.PERSON, step="task/1/execute/9")
        with pytest.raises(UsageError, match="no attempt"):
            asyncio.run(give(store, [Labelled("run", said)]))
        assert store.query("SELECT count(*) AS n FROM segue_labels")[0]["n"] == 1
        assert store.query("SELECT seconds, state FROM segue_runs") == before


def test_a_table_without_its_columns_is_refused() -> None:
    with pytest.raises(UsageError, match="no column good"):
        read_csv("run_id,task\nrun,1\n")
