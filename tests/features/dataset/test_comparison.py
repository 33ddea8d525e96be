"""Agents and models on the same prompt: averages by hand, and silence where there is only noise."""

from __future__ import annotations

from typing import Any

import pytest

from segue.features.dataset.reports.comparison import ALL_SOURCES, report_comparison
from segue.features.dataset.reports.report import DatasetReport
from segue.features.dataset.reports.selection import Dataset, Selection
from segue.features.dataset.reports.statistics import single_cases
from segue.store import connect
from tests.reports.dataset import Written


def report(data: Written, database: str) -> DatasetReport:
    with connect(data.write(database), read_only=True) as store:
        return report_comparison(Dataset(store, Selection()))


def rows(found: DatasetReport, place: int) -> list[dict[str, Any]]:
    [table] = [table for table in found.tables if table.name == ("settings", "differences")[place]]
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def usage(tokens: int, cost: float) -> dict[str, Any]:
    return {"usage": {"input_tokens": tokens, "output_tokens": 100, "cost_usd": cost}}


def test_averages_of_a_setting(database: str) -> None:
    data = Written()
    one = data.run("one").execute(1, "RRBEBR", **usage(900, 0.5)).verify(1, "FAIL", "RETRY")
    one.resolve(1, "RE", **usage(1900, 0.25)).verify(2, "PASS").end()
    data.run("two", "needs_human").execute(1, "BE", **usage(400, 1.25)).verify(1, "FAIL", "STOP").end(False)
    data.run("three", "stopped").execute(1, "BBBB")
    found = report(data, database)
    (row,) = rows(found, 0)
    assert (row["source"], row["setting"]) == ("Build a todo app", "claude opus")
    assert (row["passed"], row["recovered"]) == (single_cases(1, 2), single_cases(1, 1))
    averages = {name: (row[name].n, row[name].value) for name in row if hasattr(row[name], "low")}
    assert averages == {
        "launches": (2, 1.5),
        "seconds": (2, 30.0),  # four and two steps of ten seconds
        "tokens": (2, 1750.0),  # 3000 and 500
        "cost_usd": (2, 1.0),  # 0.75 and 1.25
        "bash_calls": (2, 1.5),  # two and one
        "reads_before_edit": (2, 0.75),  # two and one in the first run, none in the second
    }
    assert [note.split(":")[0] for note in found.notes] == [
        "Small samples",
        "1 run that has not ended or was stopped is not counted.",
    ]
    assert rows(found, 1) == []


def test_what_a_person_had_to_decide_is_not_passed(database: str) -> None:
    data = Written()
    data.run("accepted").execute().verify(1, "FAIL", "STOP").end(True, "accepted by a person")
    data.run("skipped").execute().verify(1, "FAIL", "SKIP").end(True, "skipped: too hard")
    replaced = data.run("replaced").execute().verify(1, "FAIL", "MODIFY_PLAN")
    replaced.end(False, "planned again: x", replanned=True).on("2").passes()
    (row,) = rows(report(data, database), 0)
    assert row["passed"] == single_cases(1, 3)


def test_what_an_agent_does_not_report_is_unknown_not_zero(database: str) -> None:
    data = Written()
    data.run("one").execute().verify(1, "PASS").end()
    data.run("two").execute(1, "B", **usage(0, 0.0)).verify(1, "PASS").end()
    (row,) = rows(report(data, database), 0)
    assert (row["cost_usd"].n, row["bash_calls"].n, row["tokens"].value) == (0, 1, 100.0)


def test_no_ranking_of_noise(database: str) -> None:
    data = Written()
    for number in range(4):
        data.run(f"a{number}", "done" if number < 3 else "failed", agent="a").execute()
        data.run(f"b{number}", "done" if number < 1 else "failed", agent="b").execute()
    found = rows(report(data, database), 1)
    assert [(row["measure"], row["says"]) for row in found] == [("passed", "no significant difference")]


def test_a_real_difference_is_named(database: str) -> None:
    data = Written()
    for number in range(20):
        data.run(f"a{number}", "failed" if number < 18 else "done", agent="a").execute(
            **usage(1000 + number, 0)
        )
        data.run(f"b{number}", "done", agent="b").execute(**usage(5000 + number, 0))
    found = rows(report(data, database), 1)
    assert [(row["measure"], row["says"]) for row in found] == [
        ("passed", "b opus passes more often"),
        ("tokens", "b opus takes more"),
    ]
    assert found[0]["difference"].value == pytest.approx(-0.9)


def test_only_runs_on_the_same_source_are_held_against_each_other(database: str) -> None:
    data = Written()
    for number in range(20):
        data.run(f"a{number}", "failed", source="hard", agent="a").execute()
        data.run(f"b{number}", "done", source="easy", agent="b").execute()
    assert rows(report(data, database), 1) == []


def test_many_pairs_need_stronger_evidence(database: str) -> None:
    """Eight of ten against two of ten holds for two settings, not as one of fifteen pairs."""

    def found(others: int, address: str) -> str:
        data = Written()
        for name, passed in [("a", 8), ("b", 2), *((f"z{n}", 5) for n in range(others))]:
            for number in range(10):
                data.run(f"{name}-{number}", "done" if number < passed else "failed", agent=name).execute()
        pairs = rows(report(data, address), 1)
        return next(str(row["says"]) for row in pairs if row["one"][0] == "a" and row["other"][0] == "b")

    assert found(4, database) == "no significant difference"


def test_the_first_verdict_is_compared_on_the_same_tasks(database: str) -> None:
    """Hard tasks fail for both: paired by task, six runs each show the difference in the others."""
    data = Written()
    for number in range(6):
        for agent, fails in (("a", {"7", "8", str(1 + number % 6)}), ("b", set("2345678"))):
            run = data.run(f"{agent}{number}", agent=agent, kind="plan")
            for task in "12345678":
                run.on(task).execute().verify(1, "FAIL" if task in fails else "PASS", "STOP").end()
    found = {row["measure"]: row for row in rows(report(data, database), 1)}
    assert found["passed_first"]["difference"].value == pytest.approx(30 / 48 - 6 / 48)
    assert found["passed_first"]["says"] == "a opus passes more often at first"
    assert found["passed"]["says"] == "no significant difference"


def test_who_gives_up_early_does_not_look_better_at_first(database: str) -> None:
    """Both pass a third of the first attempts that they make, but one of them ends its runs half-way."""
    data = Written()
    for number in range(6):
        for agent, reached in (("patient", 6), ("quitter", 3)):
            state = "done" if agent == "patient" else "needs_human"
            run = data.run(f"{agent}{number}", state, agent=agent, kind="plan")
            for task in range(1, reached + 1):
                passes = task in (1, 6)
                run.on(str(task)).execute().verify(1, "PASS" if passes else "FAIL", "RETRY")
                run.end(agent == "patient" or passes)
    found = report(data, database)
    rates = {row["setting"]: row["passed_first"] for row in rows(found, 0)}
    assert {name: (rate.hits, rate.n) for name, rate in rates.items()} == {
        "patient opus": (12, 36),
        "quitter opus": (6, 36),
    }
    says = {row["measure"]: row["says"] for row in rows(found, 1)}
    assert says["passed_first"] != "quitter opus passes more often at first"


def test_all_sources_together_say_more_than_each(database: str) -> None:
    data = Written()
    for source in range(6):
        for number in range(4):
            state = "done" if number < 3 else "failed"
            data.run(f"a{source}{number}", state, f"Build {source}", "a").execute()
            state = "done" if number < (source > 4) else "failed"
            data.run(f"b{source}{number}", state, f"Build {source}", "b").execute()
        data.run(f"more {source}", "done", f"Build {source}", "a").execute()  # b has no fifth run
    found = rows(report(data, database), 1)
    each = [row["says"] for row in found if row["source"] != ALL_SOURCES]
    (together,) = [row for row in found if row["source"] == ALL_SOURCES]
    assert each == ["no significant difference"] * 6
    assert together["difference"].value == pytest.approx(18 / 24 - 1 / 24)
    assert together["says"] == "a opus passes more often"
