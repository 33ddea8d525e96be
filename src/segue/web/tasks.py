"""The tasks of a source as a board: pending, running, needs a human, done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from segue.domain.errors import SegueError
from segue.domain.run import Run, RunState
from segue.domain.task import Task, TaskStatus
from segue.ports import Store
from segue.runtime.app import App
from segue.store.projections import TaskView, state_of, task_views
from segue.web import queries as facts
from segue.web.pages import Asked, Data, Page
from segue.web.runs import source_name

SIZE = 50
"""Cards of a column on one page."""

COLUMNS = ("pending", "running", "needs_human", "done")
_GOING = (RunState.RUNNING, RunState.PARKED)
_PLACES = {
    "running": "running",
    "parked": "running",
    "needs_human": "needs_human",
    "done": "done",
    "skipped": "done",
    "cancelled": "done",
}


def board(asked: Asked) -> Data:
    """The tasks of one source; of the one that ran last, if none is named."""
    sources = _sources(asked.store)
    run = _chosen(asked, sources)
    if run is None:
        return {"run": None, "sources": [], "columns": {}, "source_problem": "", "page": 1, "pages": 1}
    state = state_of(run)
    listed, problem = _listed(asked.app, run)
    cards = _cards(asked.store, run, state, listed)
    columns = {name: [card for card in cards if card["column"] == name] for name in COLUMNS}
    pages = max(1, *(-(-len(found) // SIZE) for found in columns.values()))
    number = min(asked.number("page", 1) or 1, pages)
    return {
        "title": f"Tasks of {source_name(run)}",
        "run": {"id": run.id, "state": state, "name": source_name(run), "source": run.spec.source},
        "going": state in _GOING,
        "sources": sources,
        "source_problem": problem,
        "counts": {name: len(found) for name, found in columns.items()},
        "columns": {name: found[(number - 1) * SIZE : number * SIZE] for name, found in columns.items()},
        "page": number,
        "pages": pages,
    }


def _sources(store: Store) -> list[dict[str, str]]:
    """Every source that has run, with its newest run."""
    rows = store.query(
        "SELECT r.id, r.spec->>'source' AS source, r.spec->>'source_kind' AS kind FROM orchestrator_runs r"
        " JOIN (SELECT source_key, max(created) AS newest FROM orchestrator_runs GROUP BY source_key) n"
        " ON n.source_key = r.source_key AND n.newest = r.created ORDER BY r.created DESC LIMIT 200"
    )
    return [
        {"run": str(row["id"]), "source": str(row["source"])} for row in rows if row["kind"] not in _NO_TASKS
    ]


_NO_TASKS = ("bridge", "inbox", "provider")


def _chosen(asked: Asked, sources: list[dict[str, str]]) -> Run | None:
    wanted = asked.text("run")
    if wanted:
        return facts.run_of(asked.store, wanted)
    return facts.run_of(asked.store, sources[0]["run"]) if sources else None


def _listed(app: App, run: Run) -> tuple[list[Task], str]:
    """The tasks as the source has them now, or why it cannot be read."""
    try:
        own = facts.own_app(app, run)
        return list(own.source(run.spec.source, Path(run.spec.repo)).look().tasks), ""
    except (SegueError, OSError) as error:
        return [], str(error)


def _cards(store: Store, run: Run, state: RunState, listed: list[Task]) -> list[dict[str, Any]]:
    order = facts.task_order(store, run)
    views = {view.key: view for view in task_views(run, facts.whole_steps(store, run.id, list(order)))}
    from_source = {task.key: task for task in listed}
    # A task that a new plan has dropped is shown if it was worked on.
    dropped = [key for key in order if key not in from_source and (not listed or _begun(views.get(key)))]
    return [
        _card(key, from_source.get(key), views.get(key), order.get(key, ""), state)
        for key in [*from_source, *dropped]
    ]


def _begun(view: TaskView | None) -> bool:
    return view is not None and view.started is not None and view.state != "replanned"


def _card(key: str, task: Task | None, view: TaskView | None, title: str, state: RunState) -> dict[str, Any]:
    now = _state(task, view, state)
    return {
        "key": key,
        "title": task.title if task else title,
        "state": now,
        "column": _PLACES.get(now, "pending"),
        "phase": view.phase if view else "",
        "attempts": view.attempts if view else 0,
        "verdict": view.verdict if view else None,
        "reason": view.reason if view else "",
        "story": task.story if task else None,
        "seconds": view.seconds if view else None,
        "begun": _begun(view),
    }


def _state(task: Task | None, view: TaskView | None, state: RunState) -> str:
    """What the source says of a finished task counts; else what the run knows."""
    if task is not None and task.status is not TaskStatus.PENDING:
        return str(task.status)
    if view is None:
        return "pending"
    if view.state == "running" and state not in _GOING:
        return "stopped"
    if view.state == "done" and task is not None:
        return "pending"  # somebody took its completion back
    return view.state


PAGES = (Page("/tasks", "tasks.html", "Tasks", board, menu=True, live=True),)
