"""The tasks of a source as a board: pending, running, needs a human, done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from segue.domain.errors import SegueError
from segue.domain.run import Run, RunState
from segue.domain.task import Task, TaskStatus
from segue.ports import Store
from segue.runtime.wiring import App
from segue.store.projections import TaskView, state_of, task_views
from segue.web import queries
from segue.web.routes import Data, PageRequest, PageRoute, slice_page
from segue.web.runs import name_source

SIZE = 50
"""Cards of a column on one page."""

COLUMNS = ("pending", "running", "needs_human", "done")
_ACTIVE = (RunState.RUNNING, RunState.PARKED)
_COLUMN_OF = {
    "running": "running",
    "parked": "running",
    "needs_human": "needs_human",
    "done": "done",
    "skipped": "done",
    "cancelled": "done",
}


def query_board(request: PageRequest) -> Data:
    """Return the tasks of one source; of the one that ran last if none is named."""
    sources = _list_sources(request.store)
    run = _find_run(request, sources)
    if run is None:
        return {"run": None, "sources": [], "columns": {}, "source_problem": "", "page": 1, "pages": 1}
    state = state_of(run)
    listed, problem = _read_source(request.app, run)
    cards = _make_cards(request.store, run, state, listed)
    columns = {name: [card for card in cards if card["column"] == name] for name in COLUMNS}
    number, pages = request.page(max(map(len, columns.values())), SIZE)
    return {
        "title": f"Tasks of {name_source(run)}",
        "run": {"id": run.id, "state": state, "name": name_source(run), "source": run.spec.source},
        "going": state in _ACTIVE,
        "sources": sources,
        "source_problem": problem,
        "counts": {name: len(found) for name, found in columns.items()},
        "columns": {name: slice_page(found, number, SIZE) for name, found in columns.items()},
        "page": number,
        "pages": pages,
    }


def _list_sources(store: Store) -> list[dict[str, str]]:
    """List every source that has run, with its newest run."""
    rows = store.query(
        "SELECT r.id, r.spec->>'source' AS source, r.spec->>'source_kind' AS kind FROM orchestrator_runs r"
        " JOIN (SELECT source_key, max(created) AS newest FROM orchestrator_runs GROUP BY source_key) n"
        " ON n.source_key = r.source_key AND n.newest = r.created ORDER BY r.created DESC LIMIT 200"
    )
    return [
        {"run": str(row["id"]), "source": str(row["source"])} for row in rows if row["kind"] not in _NO_TASKS
    ]


_NO_TASKS = ("bridge", "inbox", "provider")


def _find_run(request: PageRequest, sources: list[dict[str, str]]) -> Run | None:
    wanted = request.text("run")
    if wanted:
        return queries.get_run(request.store, wanted)
    return queries.get_run(request.store, sources[0]["run"]) if sources else None


def _read_source(app: App, run: Run) -> tuple[list[Task], str]:
    """Return the tasks the source contains now, and why it cannot be read."""
    try:
        own = queries.load_run_app(app, run)
        return list(own.source(run.spec.source, Path(run.spec.repo)).look().tasks), ""
    except (SegueError, OSError) as error:
        return [], str(error)


def _make_cards(store: Store, run: Run, state: RunState, listed: list[Task]) -> list[dict[str, Any]]:
    order = queries.list_tasks(store, run)
    views = {view.key: view for view in task_views(run, queries.read_steps(store, run.id, list(order)))}
    from_source = {task.key: task for task in listed}
    # A task that a new plan dropped is shown if it was started.
    dropped = [key for key in order if key not in from_source and (not listed or _is_begun(views.get(key)))]
    return [
        _make_card(key, from_source.get(key), views.get(key), order.get(key, ""), state)
        for key in [*from_source, *dropped]
    ]


def _is_begun(view: TaskView | None) -> bool:
    return view is not None and view.started is not None and view.state != "replanned"


def _make_card(
    key: str, task: Task | None, view: TaskView | None, title: str, state: RunState
) -> dict[str, Any]:
    now = _decide_state(task, view, state)
    return {
        "key": key,
        "title": task.title if task else title,
        "state": now,
        "column": _COLUMN_OF.get(now, "pending"),
        "phase": view.phase if view else "",
        "attempts": view.attempts if view else 0,
        "verdict": view.verdict if view else None,
        "reason": view.reason if view else "",
        "story": task.story if task else None,
        "seconds": view.seconds if view else None,
        "begun": _is_begun(view),
    }


def _decide_state(task: Task | None, view: TaskView | None, state: RunState) -> str:
    """Decide the state of a task: as the source has it if it is finished there, else as the run has it."""
    if task is not None and task.status is not TaskStatus.PENDING:
        return str(task.status)
    if view is None:
        return "pending"
    if view.state == "running" and state not in _ACTIVE:
        return "stopped"
    if view.state == "done" and task is not None:
        return "pending"  # its completion was undone in the source
    return view.state


PAGES = (PageRoute("/tasks", "tasks.html", "Tasks", query_board, menu=True, live=True),)
