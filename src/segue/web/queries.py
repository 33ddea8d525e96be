"""Queries about one run: its tasks, its steps, and what it has used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from segue.domain.budget import Budget
from segue.domain.errors import SegueError
from segue.domain.run import Run, Step, StepState
from segue.flow.context import LAUNCHING
from segue.ports import Store
from segue.reports.selection import Dataset, Rows, Selection
from segue.reports.timeline import read_titles
from segue.runtime.wiring import App
from segue.web.routes import NotFound

_STEPS = """SELECT s.run_id, s.key, s.gen, s.seq, s.task, s.phase, s.attempt, s.agent, s.model, s.build_phase,
 s.state, s.started, s.ended, s.superseded,
 s.output->'verdict'->>'result' AS result, s.output->'verdict'->>'action' AS action,
 coalesce(s.output->'failure'->>'message', s.output->'verdict'->>'reason', s.output->>'reason') AS reason
 FROM orchestrator_steps s WHERE s.run_id = ? AND {} ORDER BY s.seq"""

_COLUMNS = tuple(field.name for field in fields(Step))

_USED = """SELECT count(*) AS steps, min(started) AS started,
 sum(CASE WHEN phase IN ({}) AND (state = 'started' OR output->'exit_code' IS NOT NULL) THEN 1 ELSE 0 END)
 AS launches,
 sum(CAST(coalesce(output->'usage'->>'input_tokens', '0') AS numeric)) AS input_tokens,
 sum(CAST(coalesce(output->'usage'->>'output_tokens', '0') AS numeric)) AS output_tokens,
 sum(CAST(coalesce(output->'usage'->>'cost_usd', '0') AS numeric)) AS cost_usd
 FROM orchestrator_steps WHERE run_id = ?"""


def get_run(store: Store, run_id: str) -> Run:
    """Return the run with exactly this id."""
    run = store.run(run_id)
    if run is None or run.id != run_id:
        raise NotFound(f"There is no run {run_id[:60]!r}.", hint="See the list of runs.")
    return run


def load_run_app(app: App, run: Run) -> App:
    """Load the settings the run was started with, for the database shown here."""
    config = Path(run.spec.config) if run.spec.config else None
    here = {"database_url": app.database(), "state_dir": str(app.state_dir)}
    return App.load(Path(run.spec.repo), config, here, stored=run.spec.settings)


def read_budget(app: App, run: Run) -> Budget:
    """Return the budget of the run; an empty one if its repository or settings are gone."""
    try:
        return load_run_app(app, run).loaded.settings.limits.budget()
    except (SegueError, OSError):
        return Budget()


def sum_usage(store: Store, run_id: str) -> dict[str, Any]:
    """Sum up what all steps of a run have used."""
    phases = ", ".join("?" * len(LAUNCHING))
    [row] = store.query(_USED.format(phases), [*LAUNCHING, run_id])
    whole = {name: int(row[name] or 0) for name in ("steps", "launches", "input_tokens", "output_tokens")}
    return {
        **whole,
        "tokens": whole["input_tokens"] + whole["output_tokens"],
        "cost_usd": float(row["cost_usd"] or 0),
    }


def list_tasks(store: Store, run: Run) -> dict[str, str]:
    """Return the titles of the tasks of a run by key, in the order in which they are run.

    Tasks that a new plan dropped before they were started are left out.
    """
    rows = Dataset(store, Selection(run=run.id)).ask("titles")
    known = read_titles(rows).get(run.id, {})
    planned = rows[-1]["data"] if rows and isinstance(rows[-1]["data"], dict) else {}
    begun = store.query(
        "SELECT task, min(seq) AS began FROM orchestrator_steps"
        " WHERE run_id = ? AND task IS NOT NULL GROUP BY task ORDER BY 2",
        [run.id],
    )
    wanted = {*planned, *(str(row["task"]) for row in begun)}
    keys = [*run.spec.titles, *(str(row["task"]) for row in begun), *planned]
    return {key: known.get(key, f"Task {key}") for key in dict.fromkeys(keys) if key in wanted}


def count_done(store: Store, run_id: str) -> int:
    """Count the tasks of a run that are done."""
    [row] = store.query(
        "SELECT count(DISTINCT task) AS done FROM orchestrator_steps"
        " WHERE run_id = ? AND superseded IS NULL AND phase = 'end' AND state = 'done'",
        [run_id],
    )
    return int(row["done"])


def list_steps(store: Store, run_id: str, tasks: Sequence[str]) -> Rows:
    """Return the steps of some tasks, without their output."""
    if not tasks:
        return []
    marks = ", ".join("?" * len(tasks))
    return store.query(_STEPS.format(f"s.task IN ({marks})"), [run_id, *tasks])


def list_run_steps(store: Store, run_id: str) -> Rows:
    """Return the steps that belong to the run as a whole, not to a task."""
    return store.query(_STEPS.format("s.task IS NULL"), [run_id])


def read_steps(store: Store, run_id: str, tasks: Sequence[str]) -> list[Step]:
    """Return the current steps of some tasks, with their output."""
    if not tasks:
        return []
    marks = ", ".join("?" * len(tasks))
    columns = ", ".join("run_id AS run" if name == "run" else name for name in _COLUMNS)
    sql = f"SELECT {columns} FROM orchestrator_steps WHERE run_id = ? AND superseded IS NULL"  # noqa: S608
    rows = store.query(f"{sql} AND task IN ({marks}) ORDER BY seq", [run_id, *tasks])
    return [Step(**{**row, "state": StepState(row["state"])}) for row in rows]


def get_step(store: Store, run_id: str, seq: int) -> dict[str, Any]:
    """Return one step with its input and output."""
    rows = store.query("SELECT * FROM orchestrator_steps WHERE run_id = ? AND seq = ?", [run_id, seq])
    if not rows:
        raise NotFound(f"There is no step {seq} in run {run_id}.", hint=f"See /runs/{run_id}")
    return rows[0]
