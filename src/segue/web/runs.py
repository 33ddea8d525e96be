"""The list of runs: newest first, with filters and pages."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from segue.domain.run import Run, RunState
from segue.ports import Store
from segue.store.projections import state_of
from segue.web.routes import Data, PageRequest, PageRoute, slice_page

SIZE = 25
"""Runs on one page."""

FILTERS = ("source", "agent", "flow", "state")
_SPEC = ("source", "agent", "flow")
_COUNTS = """SELECT run_id, count(DISTINCT task) AS begun,
 count(DISTINCT CASE WHEN phase = 'end' AND state = 'done' THEN task END) AS done,
 count(DISTINCT CASE WHEN phase = 'end' AND state = 'failed' THEN task END) AS failed
 FROM orchestrator_steps WHERE superseded IS NULL AND run_id IN ({}) GROUP BY run_id"""


def query_runs(request: PageRequest) -> Data:
    """Return one page of the runs that match, and the choices of the filters."""
    chosen = {name: request.text(name) for name in FILTERS}
    conditions = [(f"spec->>'{name}' = ?", chosen[name]) for name in _SPEC if chosen[name]]
    found = _find_ids(request.store, conditions, chosen["state"])
    number, pages = request.page(len(found), SIZE)
    shown = slice_page(found, number, SIZE)
    return {
        "runs": [_make_row(run) for run in map(request.store.run, shown) if run is not None],
        "counts": _count_tasks(request.store, shown),
        "total": len(found),
        "page": number,
        "pages": pages,
        "filters": chosen,
        "choices": _list_choices(request.store),
        "any": bool(request.store.runs(limit=1)),
    }


def _find_ids(store: Store, conditions: list[tuple[str, str]], state: str) -> list[str]:
    """Find the ids of the runs that match, newest first."""
    where = " AND ".join(["true", *(condition for condition, _ in conditions)])
    values: list[object] = [value for _, value in conditions]
    if state and state not in (RunState.RUNNING, RunState.PARKED, RunState.STOPPED):
        where, values = f"{where} AND state = ?", [*values, state]
        state = ""
    sql = f"SELECT id, state FROM orchestrator_runs WHERE {where} ORDER BY created DESC, id"  # noqa: S608
    rows = store.query(sql, values)
    if not state:
        return [str(row["id"]) for row in rows]
    return [str(row["id"]) for row in rows if _actual_state(store, row) == state]


def _actual_state(store: Store, row: dict[str, Any]) -> str:
    """Return the state of a run; one whose process is gone is stopped, whatever its row says."""
    if row["state"] not in (RunState.RUNNING, RunState.PARKED):
        return str(row["state"])
    run = store.run(str(row["id"]))
    return state_of(run) if run else ""


def _make_row(run: Run) -> dict[str, Any]:
    state = state_of(run)
    ended = None if state in (RunState.RUNNING, RunState.PARKED) else run.updated
    return {
        "id": run.id,
        "state": state,
        "source": run.spec.source,
        "kind": run.spec.source_kind,
        "name": name_source(run),
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


def name_source(run: Run) -> str:
    """Name the source of a run: a file, a folder, or the prompt itself."""
    if run.spec.source_kind in ("prompt", "bridge"):
        return run.spec.source
    path = PurePath(run.spec.source)
    return path.name if path.name != "tasks.md" else path.parent.name


def _count_tasks(store: Store, ids: list[str]) -> dict[str, dict[str, int]]:
    """Count the tasks each run has started, finished, and left to a person."""
    if not ids:
        return {}
    rows = store.query(_COUNTS.format(", ".join("?" * len(ids))), ids)
    return {
        str(row["run_id"]): {name: int(row[name]) for name in ("begun", "done", "failed")} for row in rows
    }


def _list_choices(store: Store) -> dict[str, list[str]]:
    columns = ", ".join(f"spec->>'{name}' AS {name}" for name in _SPEC)
    rows = store.query(f"SELECT DISTINCT {columns} FROM orchestrator_runs")  # noqa: S608
    found = {name: sorted({str(row[name]) for row in rows if row[name]}) for name in _SPEC}
    return {**found, "state": [str(state) for state in RunState]}


PAGES = (PageRoute("/runs", "runs.html", "Runs", query_runs, menu=True, live=True),)
