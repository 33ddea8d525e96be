"""Whatever happened in a run: everybody who shows or uses its numbers has the same ones."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from segue.cli.terminal.progress import Progress
from segue.cli.terminal.task_table import format_cost, task_lines
from segue.domain.amounts import format_duration
from segue.domain.events import Recorded, TaskEnded
from segue.domain.run import Run, RunKind, RunSpec, RunState
from segue.domain.statement import name_level
from segue.runtime.app import App
from segue.store import connect
from segue.store.database import Database, open_database
from segue.store.encoding import encode
from segue.store.rows import EVENT, encode_spec
from segue.store.store import Store
from segue.view.data import run_data
from segue.view.load import load_view
from segue.view.run import RunView
from segue.web.routes import PageRequest
from segue.web.run import query_run
from segue.web.runs import query_runs
from tests.view.sequences import FACTS, TITLES, histories

SPEC = RunSpec("planfile", *FACTS, titles=TITLES, kind=RunKind.PLAN)
NUMBERS = itertools.count(1)
TASK = ("state", "kind", "verdict", "proof", "tampering", "attempts", "tokens", "cost_usd", "seconds")


@dataclass(frozen=True)
class Shared:
    """One database for all examples: making one takes longer than everything else."""

    address: str
    folder: Path
    database: Database

    def write(self, events: list[Recorded]) -> str:
        """Write a run with these events and return its id."""
        number = next(NUMBERS)
        run, state = f"run-{number:06}", str(RunState.STOPPED)
        columns = ("id", "source_key", "kind", "spec", "state", "created", "updated")
        row = (run, "k", str(SPEC.kind), encode_spec(SPEC), state, number, number)
        rows = [(run, e.seq, e.ts, e.step, e.type, encode(e.data)) for e in events]
        with self.database.transaction():
            self.database.append("orchestrator_runs", columns, [row])
            self.database.append("orchestrator_events", EVENT, rows)
        return run


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = tmp_path_factory.mktemp("agree")
    address = str(folder / "segue.db")
    connect(address).disconnect()
    database = open_database(address)
    yield Shared(address, folder, database)
    database.close()


def figures(view: RunView) -> dict[str, Any]:
    """The numbers of a view."""
    tasks = {
        task.key: (
            *(task.state, task.kind, task.verdict, task.proof and name_level(task.proof), task.tampering),
            *(task.attempts, task.usage.tokens, task.usage.cost_usd, task.seconds),
        )
        for task in view.tasks.values()
    }
    usage = view.usage
    return {"run": (view.launches, usage.tokens, usage.cost_usd, view.work.ms / 1000), "tasks": tasks}


def shown(used: dict[str, Any], tasks: list[dict[str, Any]]) -> dict[str, Any]:
    """The numbers of JSON."""
    run = tuple(used[name] for name in ("launches", "tokens", "cost_usd", "seconds"))
    return {"run": run, "tasks": {task["key"]: tuple(task[name] for name in TASK) for task in tasks}}


def on_page(app: App, store: Store, run: Run) -> dict[str, Any]:
    data = json.loads(json.dumps(query_run(PageRequest(app, store, {"run": run.id}, {})), default=str))
    assert data["done"] == sum(task["state"] in ("done", "skipped") for task in data["tasks"])
    assert data["total"] == len(data["tasks"])
    return shown(data["used"], data["tasks"])


def compare_summary(view: RunView) -> None:
    """The last line of `segue status` and of a run's summary adds up to the same."""
    total = task_lines(view, None, False, brief=False)[-1]
    used = view.usage
    for known in (
        format_duration(view.work.ms / 1000),
        f"{view.launches} launch",
        format_cost(used.cost_usd),
        view.describe_spent(0),
    ):
        assert known in total
    assert not used.tokens or f"{used.tokens:,}" in total


def in_live_table(events: list[Recorded]) -> dict[str, Any]:
    progress = Progress(RunView.of(TITLES))
    for event in events:
        progress.take(event)
    view = progress.view.close(RunState.STOPPED)
    assert [row.key for row in progress.rows()] == list(view.tasks)
    return figures(view)


def compare_tables(store: Store, run: Run, view: RunView) -> None:
    """The flat table of tasks says the same in SQL."""
    rows = store.query("SELECT task, state, proof_level FROM segue_tasks WHERE run_id = ?", [run.id])
    assert {row["task"] for row in rows} == {task.key for task in view.tasks.values() if task.started}
    for row in rows:
        task = view.tasks[row["task"]]
        ended = task.state in ("done", "skipped", "needs_human", "replanned")
        assert row["state"] == (task.state if ended else "open"), task
        assert row["proof_level"] == (task.proof and task.proof.level)


@given(histories())
@settings(
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_everybody_shows_the_same_numbers(shared: Shared, events: list[Recorded]) -> None:
    run_id = shared.write(events)
    app = App.load(shared.folder, None, {"database_url": shared.address})
    with connect(shared.address, read_only=True) as store:
        run = store.run(run_id)
        assert run is not None
        view = load_view(store, run)
        expected = figures(view)
        assert on_page(app, store, run) == expected
        [row] = [row for row in query_runs(PageRequest(app, store, {}, {}))["runs"] if row["id"] == run_id]
        assert shown(row, [])["run"] == expected["run"]
        status = run_data(run, view)["tasks"]
        assert {task["key"]: tuple(task[name] for name in TASK) for task in status} == expected["tasks"]
        assert in_live_table(events) == expected
        compare_tables(store, run, view)
        compare_summary(view)


@given(histories())
def test_nobody_says_pass_about_what_is_not_proven(events: list[Recorded]) -> None:
    view = RunView.of(TITLES, events).close(RunState.STOPPED)
    for task in view.tasks.values():
        recorded = [
            e.event.proof for e in events if isinstance(e.event, TaskEnded) and e.event.task == task.key
        ]
        proven = task.proof is not None and task.proof.level.proven
        assert proven or "PASS" not in (task.verdict, task.conclusion)
        assert task.proof is None or task.state == "done"
        assert task.proof is None or task.proof.by == "Ada" or task.proof in recorded
