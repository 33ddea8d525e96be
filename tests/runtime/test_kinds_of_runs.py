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


def test_the_last_run_is_never_a_trial_a_conversation_or_a_call(app: App) -> None:
    with app.store(read_only=True) as store:
        assert find_run(store, app, "last").spec.kind in USUAL_RUNS


@pytest.mark.parametrize("kind", TASK_RUNS)
def test_the_page_shows_one_kind(app: App, kind: RunKind) -> None:
    with app.store(read_only=True) as store:
        shown = query_runs(PageRequest(app, store, {}, {"kind": str(kind)}))["runs"]
        assert [row["kind"] for row in shown] == [kind]
        every = query_runs(PageRequest(app, store, {}, {}))["runs"]
    assert {row["kind"] for row in every} == set(USUAL_RUNS)


@pytest.mark.parametrize("kind", TASK_RUNS)
def test_trials_notify_nobody(tmp_path: Path, kind: RunKind) -> None:
    terminal = {"notify": {"terminal": {"enabled": True}}}
    app = App.load(tmp_path, None, {"database_url": str(tmp_path / "segue.db"), **terminal})
    spec = RunSpec("x", f"a {kind}", str(tmp_path), "scripted", "execute", kind=kind)
    assert (make_run_notifier(app, spec, print) is None) == (kind is RunKind.TRIAL)
