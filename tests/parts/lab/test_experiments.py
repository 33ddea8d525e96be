"""Experiments: how far they are, differences to the first arm, and whether they may be stopped."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from segue.domain.run import RunKind
from segue.parts.lab.experiment.power import Design
from segue.parts.lab.experiment.report import ExperimentPlan, find_experiments, report_experiment
from segue.parts.lab.reports.build import build_reports
from segue.parts.lab.reports.comparison import ALL_SOURCES
from segue.parts.lab.reports.report import DatasetReport
from segue.parts.lab.reports.selection import Selection
from segue.parts.lab.reports.statistics import (
    FEWEST_PROMPTS,
    Difference,
    Proportion,
    RunCases,
    compare_runs,
)
from segue.store import connect
from tests.reports.dataset import Written

PLAN = {"arms": 2, "prompts": 2, "trials": 12, "looks": 2}


def trials(
    each: int = 12, better: int = 12, plan: dict[str, int] | None = None, name: str = "careful"
) -> Written:
    """Make so many trials of two arms and prompts; of the second arm so many pass, of the first none."""
    data = Written()
    for number in range(each):
        for prompt in ("one", "two"):
            for place, arm in ((1, "usual"), (2, "better")):
                passed = arm == "better" and number < better
                trial = {"experiment": name, "arm": arm, "place": place, **(PLAN if plan is None else plan)}
                state = "done" if passed else "needs_human"
                run = data.run(f"{arm}-{prompt}-{number}", state, prompt, kind="trial", trial=trial)
                run.execute(
                    usage={"input_tokens": 1, "output_tokens": 1, "cost_usd": 1.0 + place + number / 10}
                )
                run.verify(1, "PASS" if passed else "FAIL").end(passed, "done")
    return data


def report(data: Written, database: str, name: str = "careful") -> DatasetReport:
    with connect(data.write(database), read_only=True) as store:
        assert find_experiments(store) == [name]
        return report_experiment(store, name)


def rows(found: DatasetReport, name: str) -> list[dict[str, Any]]:
    return next(table for table in found.tables if table.name == name).records()


def test_progress_rates_and_differences_to_the_first_arm(database: str) -> None:
    data = trials(each=8)
    data.run(
        "more",
        "running",
        "one",
        kind="trial",
        trial={"experiment": "careful", "arm": "usual", "place": 1, **PLAN},
    )
    found = report(data, database)
    assert found.notes[0] == "32 of 48 trials are over, 1 more have begun."
    arms = rows(found, "arms")
    assert [(arm["arm"], arm["over"], arm["planned"]) for arm in arms] == [
        ("usual", 16, 24),
        ("better", 16, 24),
    ]
    assert isinstance(arms[1]["passed"], Proportion)
    assert (arms[1]["passed"].hits, arms[1]["passed"].n) == (16, 16)
    says = {row["measure"]: row["says"] for row in rows(found, "against_first")}
    assert says == {
        "passed": "passes more often",
        "passed_first": "passes at first more often",
        "cost_usd": "costs more",
        "seconds": "no significant difference",
    }


def test_it_may_be_stopped_at_a_planned_look_only(database: str) -> None:
    early = report(trials(each=5), database)
    assert [row["state"] for row in rows(early, "looks")] == ["not reached", "not reached"]
    assert "0 of 2 planned looks" in early.notes[-1]


def test_a_look_uses_the_trials_that_were_planned_for_it(database: str) -> None:
    found = report(trials(each=9), database)
    first, second = rows(found, "looks")
    assert (first["trials_of_each"], first["state"], second["state"]) == (12, "reached", "not reached")
    assert (
        "it may be stopped. Look 1 of 2: better passes more often than usual: +100 points" in found.notes[-1]
    )


def test_more_arms_and_looks_need_stronger_evidence() -> None:
    assert ExperimentPlan(2, 1, 5, 1).design.level == pytest.approx(1 - 0.05 / 2), "two rates"
    assert ExperimentPlan(3, 1, 5, 4).design.level == pytest.approx(1 - 0.05 / (3 * 2 * 4)), "three pairs"


def test_without_looks_nobody_stops_early(database: str) -> None:
    found = report(trials(plan={**PLAN, "looks": 1}), database)
    assert "no looks were planned" in found.notes[-1]
    assert rows(found, "looks") == []
    assert "is found in 80 % of such experiments" in found.notes[1]


def test_an_old_experiment_has_no_plan(database: str) -> None:
    found = report(trials(each=3, plan={}), database)
    assert found.notes == ("12 trials are over. How many were planned is not recorded.",)
    assert [arm["planned"] for arm in rows(found, "arms")] == [None, None]


def test_the_comparison_lists_experiments(database: str) -> None:
    with connect(trials(each=4).write(database), read_only=True) as store:
        [compared] = build_reports(store, ("compare",), Selection())
        arms = [table.records() for table in compared.tables if table.name == "experiments"]
        sql = next(table.sql for table in report_experiment(store, "careful").tables if table.name == "arms")
        runs = store.query(sql.partition(";\n")[0])
    assert [(row["experiment"], row["arm"], row["over"]) for row in arms[0]] == [
        ("careful", "usual", 8),
        ("careful", "better", 8),
    ]
    assert arms[0][0]["against_first"] is None
    ended = Counter((row["arm"], row["state"]) for row in runs)
    assert (ended["usual", "done"], ended["better", "done"]) == (0, 8), ended


@pytest.mark.parametrize(("prompts", "each"), [(6, 6), (2, 20), (20, 2)])
def test_the_comparison_the_page_and_the_plan_make_one_test(prompts: int, each: int, tmp_path: Path) -> None:
    """The power that is planned is that of this test: see `bench/coverage.py`."""
    chance, data = random.Random(f"{prompts}x{each}"), Written()
    shape = {"arms": 2, "prompts": prompts, "trials": each, "looks": 1}
    cases: dict[str, list[RunCases]] = {"usual": [], "better": []}
    for prompt, number, (place, arm, rate) in product(
        range(prompts), range(each), ((1, "usual", 0.5), (2, "better", 0.9))
    ):
        passed, name, source = chance.random() < rate, f"{arm}-{prompt}-{number}", f"Build {prompt}"
        trial = {"experiment": "careful", "arm": arm, "place": place, **shape}
        run = data.run(name, "done" if passed else "needs_human", source, kind="trial", trial=trial)
        run.execute().verify(1, "PASS" if passed else "FAIL").end(passed, "done")
        cases[arm].append(RunCases(name, source, (passed,)))
    with connect(data.write(str(tmp_path / "segue.db")), read_only=True) as store:
        [compared] = build_reports(store, ("compare",), Selection(kind=RunKind.TRIAL))
        page = report_experiment(store, "careful")
    [whole] = [
        row
        for row in rows(compared, "differences")
        if (row["source"], row["measure"]) == (ALL_SOURCES, "passed")
    ]
    [first] = [row for row in rows(page, "against_first") if row["measure"] == "passed"]
    wanted = compare_runs(cases["better"], cases["usual"], Design(2, prompts, each).level)
    assert wanted is not None
    assert (whole["one"], whole["other"]) == ("careful/better", "careful/usual")
    assert whole["difference"] == first["against_first"] == wanted.here
    assert whole["prompts_like_these"] == first["prompts_like_these"]
    assert isinstance(first["prompts_like_these"], Difference) is (prompts >= FEWEST_PROMPTS)
    [said] = [
        note for note in compared.notes if "passes more often than careful/usual on all sources" in note
    ]
    others = (
        "points [" if prompts >= FEWEST_PROMPTS else f"cannot tell: {prompts} of {FEWEST_PROMPTS} prompts"
    )
    assert others in said.partition("on prompts like these: ")[2]
