"""A database with a run of every kind: who asks for one kind gets no other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from segue.cli.main import run
from segue.domain.run import TASK_RUNS, USUAL_RUNS, RunKind, RunSpec
from segue.runtime.app import App
from segue.runtime.find import find_run
from segue.runtime.wiring import make_run_notifier
from segue.web.events import query_events
from segue.web.palette import query_palette
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


def list_kinds(app: App, capsys: pytest.CaptureFixture[str], *args: str) -> list[str]:
    assert run(["status", "--json", "--database-url", app.database(), *args]) == 0
    return [listed["kind"] for listed in json.loads(capsys.readouterr().out)["data"]]


def test_the_list_in_the_terminal_shows_peoples_own_work(
    app: App, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sorted(list_kinds(app, capsys)) == sorted(USUAL_RUNS)
    for kind in RunKind:
        assert list_kinds(app, capsys, "--kind", str(kind)) == [kind]


def test_the_list_has_a_column_for_kinds_where_there_are_several(
    app: App, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["status", "--database-url", app.database()]) == 0
    several = capsys.readouterr().out
    assert run(["status", "--kind", "plan", "--database-url", app.database()]) == 0
    assert "KIND" in several
    assert all(f"  {kind}  " in several for kind in USUAL_RUNS)
    assert "KIND" not in capsys.readouterr().out


def test_a_list_without_rows_says_whether_there_are_other_kinds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = str(tmp_path / "segue.db")
    app = App.load(tmp_path, None, {"database_url": database})
    with app.store() as store:
        store.create("key", RunSpec("x", "a trial", str(tmp_path), "scripted", "execute", kind=RunKind.TRIAL))
    assert run(["status", "--database-url", database]) == 0
    assert "segue status --kind KIND" in capsys.readouterr().out


def test_the_last_run_is_never_a_trial_a_conversation_or_a_call(app: App) -> None:
    with app.store(read_only=True) as store:
        assert find_run(store, app, "last").spec.kind in USUAL_RUNS


@pytest.mark.parametrize("kind", TASK_RUNS)
def test_the_page_shows_one_kind(app: App, kind: RunKind) -> None:
    with app.store(read_only=True) as store:
        shown = query_runs(PageRequest(app, store, {}, {"kind": str(kind)}))["runs"]
        assert [row["kind"] for row in shown] == [kind]
        every = query_runs(PageRequest(app, store, {}, {}))["runs"]
        jumps = query_palette(PageRequest(app, store, {}, {}))["found"]
        choices = query_events(PageRequest(app, store, {}, {}))["choices"]["run"]
    assert len(choices) == len(USUAL_RUNS)
    assert {row["kind"] for row in every} == set(USUAL_RUNS)
    assert sum(found["kind"] == "run" for found in jumps) == len(USUAL_RUNS)


@pytest.mark.parametrize("kind", TASK_RUNS)
def test_trials_notify_nobody(tmp_path: Path, kind: RunKind) -> None:
    terminal = {"notify": {"terminal": {"enabled": True}}}
    app = App.load(tmp_path, None, {"database_url": str(tmp_path / "segue.db"), **terminal})
    spec = RunSpec("x", f"a {kind}", str(tmp_path), "scripted", "execute", kind=kind)
    assert (make_run_notifier(app, spec, print) is None) == (kind is RunKind.TRIAL)
