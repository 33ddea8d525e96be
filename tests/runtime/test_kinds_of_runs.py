"""A database with a run of every kind: who asks for one kind gets no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from segue.cli.look.status import _list
from segue.cli.terminal.output import Printer
from segue.domain.run import TASK_RUNS, Run, RunKind, RunSpec
from segue.reports.selection import Selection
from segue.runtime.app import App
from segue.runtime.find import find_run
from segue.web.routes import PageRequest
from segue.web.runs import query_runs


@pytest.fixture
def app(tmp_path: Path) -> App:
    """Where every kind of run was made, all in one folder, those of the bridge and the models last."""
    app = App.load(tmp_path, None, {"database_url": str(tmp_path / "segue.db")})
    with app.store() as store:
        for kind in sorted(RunKind, key=lambda kind: not kind.has_tasks):
            spec = RunSpec("x", f"a {kind}", str(tmp_path), "scripted", "execute", kind=kind)
            store.create(f"key {kind}", spec)
    return app


def kinds(runs: list[Run]) -> list[RunKind]:
    return [run.spec.kind for run in runs]


def test_the_list_of_runs_names_their_kinds(app: App, capsys: pytest.CaptureFixture[str]) -> None:
    with app.store(read_only=True) as store:
        runs = store.runs(kinds=TASK_RUNS)
        assert sorted(kinds(runs)) == sorted(TASK_RUNS)
        _list(runs, Printer(False, False, "never"))
        _list(store.runs(kinds=[RunKind.PLAN]), Printer(False, False, "never"))
    several, one = capsys.readouterr().out.split("RUN ")[1:]
    assert "KIND" in several
    assert all(f"  {kind}  " in several for kind in TASK_RUNS)
    assert "KIND" not in one


def test_the_last_run_is_never_a_conversation_or_a_call(app: App) -> None:
    with app.store(read_only=True) as store:
        assert find_run(store, app, "last").spec.kind in TASK_RUNS


@pytest.mark.parametrize("kind", TASK_RUNS)
def test_reports_and_the_page_show_one_kind(app: App, kind: RunKind) -> None:
    with app.store(read_only=True) as store:
        sql, values = Selection(kind=kind).to_sql()
        found = store.query(f"SELECT kind FROM orchestrator_runs WHERE true{sql}", values)
        assert [row["kind"] for row in found] == [kind]
        shown = query_runs(PageRequest(app, store, {}, {"kind": str(kind)}))["runs"]
        assert [row["kind"] for row in shown] == [kind]
        every = query_runs(PageRequest(app, store, {}, {}))["runs"]
    assert {row["kind"] for row in every} == set(TASK_RUNS), "no conversation, no call of a model"
