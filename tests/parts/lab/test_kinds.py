"""Reports are about one kind of runs at a time."""

from __future__ import annotations

import pytest

from segue.cli.main import run
from segue.domain.run import TASK_RUNS, RunKind, RunSpec
from segue.parts.lab.reports.selection import Selection, choose_kind
from segue.runtime.app import App
from tests.runtime.test_kinds_of_runs import app as app


@pytest.mark.parametrize("kind", TASK_RUNS)
def test_a_selection_has_one_kind(app: App, kind: RunKind) -> None:
    with app.store(read_only=True) as store:
        sql, values = Selection(kind=kind).to_sql()
        found = store.query(f"SELECT kind FROM orchestrator_runs WHERE true{sql}", values)
        assert [row["kind"] for row in found] == [kind]


def test_a_report_about_nothing_does_not_say_that_there_are_no_runs(
    app: App, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["report", "compare", "--database-url", app.database()]) == 0
    assert capsys.readouterr().out == "No matching runs.\n"


def test_a_report_is_about_trials_only_where_there_is_nothing_else(app: App) -> None:
    with app.store() as store:
        for number in range(3):
            spec = RunSpec("x", "a trial", str(app.repo), "scripted", "execute", kind=RunKind.TRIAL)
            store.create(f"trial {number}", spec)
        chosen, left_out = choose_kind(store, Selection())
        assert chosen.kind is RunKind.PLAN
        assert "4 of kind trial (--kind trial)" in left_out
        assert choose_kind(store, Selection(sources=("a trial",)))[0].kind is RunKind.TRIAL
