"""The page of all runs: newest first, filtered, a page at a time."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from segue.domain.run import Run, RunState
from segue.ports import Store
from segue.store.projections import state_of
from segue.web.pages import Asked, Data, Page

SIZE = 25
"""Runs on one page."""

FILTERS = ("source", "agent", "flow", "state")
_SPEC = ("source", "agent", "flow")
_COUNTS = """SELECT run_id, count(DISTINCT task) AS begun,
 count(DISTINCT CASE WHEN phase = 'end' AND state = 'done' THEN task END) AS done,
 count(DISTINCT CASE WHEN phase = 'end' AND state = 'failed' THEN task END) AS failed
 FROM orchestrator_steps WHERE superseded IS NULL AND run_id IN ({}) GROUP BY run_id"""


def runs(asked: Asked) -> Data:
    """The runs, what they can be filtered by, and where in the list we are."""
    chosen = {name: asked.text(name) for name in FILTERS}
    conditions = [(f"spec->>'{name}' = ?", chosen[name]) for name in _SPEC if chosen[name]]
    found = _ids(asked.store, conditions, chosen["state"])
    number = min(asked.number("page", 1) or 1, max(1, -(-len(found) // SIZE)))
    shown = found[(number - 1) * SIZE : number * SIZE]
    return {
        "runs": [_row(run) for run in map(asked.store.run, shown) if run is not None],
        "counts": _counts(asked.store, shown),
        "total": len(found),
        "page": number,
        "pages": max(1, -(-len(found) // SIZE)),
        "filters": chosen,
        "choices": _choices(asked.store),
        "any": bool(asked.store.runs(limit=1)),
    }


def _ids(store: Store, conditions: list[tuple[str, str]], state: str) -> list[str]:
    """The ids of the runs that are asked for, newest first."""
    where = " AND ".join(["true", *(condition for condition, _ in conditions)])
    values: list[object] = [value for _, value in conditions]
    if state and state not in (RunState.RUNNING, RunState.PARKED, RunState.STOPPED):
        where, values = f"{where} AND state = ?", [*values, state]
        state = ""
    sql = f"SELECT id, state FROM orchestrator_runs WHERE {where} ORDER BY created DESC, id"  # noqa: S608
    rows = store.query(sql, values)
    if not state:
        return [str(row["id"]) for row in rows]
    return [str(row["id"]) for row in rows if _really(store, row) == state]


def _really(store: Store, row: dict[str, Any]) -> str:
    """A run whose process is gone is stopped, whatever its row says."""
    if row["state"] not in (RunState.RUNNING, RunState.PARKED):
        return str(row["state"])
    run = store.run(str(row["id"]))
    return state_of(run) if run else ""


def _row(run: Run) -> dict[str, Any]:
    state = state_of(run)
    ended = None if state in (RunState.RUNNING, RunState.PARKED) else run.updated
    return {
        "id": run.id,
        "state": state,
        "source": run.spec.source,
        "kind": run.spec.source_kind,
        "name": source_name(run),
        "agent": run.spec.agent,
        "model": run.spec.model,
        "flow": run.spec.flow,
        "repo": run.spec.repo,
        "tasks": len(run.spec.titles),
        "note": run.note,
        "created": run.created,
        "updated": run.updated,
        "seconds": (ended - run.created) / 1000 if ended else None,
        "wake": run.wake,
    }


def source_name(run: Run) -> str:
    """What a run is about, in a few words: the name of a file or folder, or the sentence itself."""
    if run.spec.source_kind in ("prompt", "bridge"):
        return run.spec.source
    path = PurePath(run.spec.source)
    return path.name if path.name != "tasks.md" else path.parent.name


def _counts(store: Store, ids: list[str]) -> dict[str, dict[str, int]]:
    """How many tasks each of the runs has begun, finished, and left to a person."""
    if not ids:
        return {}
    rows = store.query(_COUNTS.format(", ".join("?" * len(ids))), ids)
    return {
        str(row["run_id"]): {name: int(row[name]) for name in ("begun", "done", "failed")} for row in rows
    }


def _choices(store: Store) -> dict[str, list[str]]:
    columns = ", ".join(f"spec->>'{name}' AS {name}" for name in _SPEC)
    rows = store.query(f"SELECT DISTINCT {columns} FROM orchestrator_runs")  # noqa: S608
    found = {name: sorted({str(row[name]) for row in rows if row[name]}) for name in _SPEC}
    return {**found, "state": [str(state) for state in RunState]}


PAGES = (Page("/runs", "runs.html", "Runs", runs, menu=True, live=True),)
