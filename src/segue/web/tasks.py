"""The tasks of a source as a board: pending, running, needs a human, done."""

from __future__ import annotations

from typing import Any

from segue.domain.run import USUAL_RUNS, Run
from segue.domain.task import Task, TaskStatus
from segue.ports import Store
from segue.runtime.stored import read_source
from segue.view.load import select_kinds
from segue.view.run import RunView
from segue.view.task import TaskView
from segue.web import queries
from segue.web.routes import Data, PageRequest, PageRoute, slice_page

SIZE = 50
"""Cards of a column on one page."""

COLUMNS = ("pending", "running", "needs_human", "done")
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
    # What a fleet has done is in the journal alone: no file on this machine says so.
    listed, problem = read_source(request.app, run) if run.spec.origin is None else ([], "")
    cards = _make_cards(request.view(run), listed)
    columns = {name: [card for card in cards if card["column"] == name] for name in COLUMNS}
    number, pages = request.page(max(map(len, columns.values())), SIZE)
    return {
        "title": f"Tasks of {run.source_name}",
        "run": (place := queries.describe_place(run)),
        "going": place["going"],
        "sources": sources,
        "source_problem": problem,
        "counts": {name: len(found) for name, found in columns.items()},
        "columns": {name: slice_page(found, number, SIZE) for name, found in columns.items()},
        "page": number,
        "pages": pages,
    }


def _list_sources(store: Store) -> list[dict[str, str]]:
    """List every source that has run, with its newest run."""
    usual = f"FROM orchestrator_runs WHERE {select_kinds(USUAL_RUNS)}"
    rows = store.query(
        f"SELECT r.id, r.source FROM (SELECT id, source_key, created, spec->>'source' AS source {usual}) r"  # noqa: S608
        f" JOIN (SELECT source_key, max(created) AS newest {usual} GROUP BY source_key) n"
        " ON n.source_key = r.source_key AND n.newest = r.created ORDER BY r.created DESC LIMIT 200"
    )
    return [{"run": str(row["id"]), "source": str(row["source"])} for row in rows]


def _find_run(request: PageRequest, sources: list[dict[str, str]]) -> Run | None:
    wanted = request.text("run")
    if wanted:
        return queries.get_run(request.store, wanted)
    return queries.get_run(request.store, sources[0]["run"]) if sources else None


def _make_cards(view: RunView, listed: list[Task]) -> list[dict[str, Any]]:
    from_source = {task.key: task for task in listed}
    # A task that a new plan dropped is shown if it was started.
    dropped = [
        key for key, task in view.tasks.items() if key not in from_source and (not listed or _is_begun(task))
    ]
    return [_make_card(view, key, from_source.get(key)) for key in [*from_source, *dropped]]


def _is_begun(task: TaskView) -> bool:
    return task.started is not None and task.state != "replanned"


def _make_card(view: RunView, key: str, listed: Task | None) -> dict[str, Any]:
    task = view.tasks.get(key) or TaskView(key, "")
    now = _decide_state(listed, task)
    return {
        **queries.describe_task(view, task),
        "title": listed.title if listed else task.title,
        "state": now,
        "kind": task.kind or (listed.kind if listed else None),
        "column": _COLUMN_OF.get(now, "pending"),
        "story": listed.story if listed else None,
        "begun": _is_begun(task),
    }


def _decide_state(listed: Task | None, task: TaskView) -> str:
    """Decide the state of a task: as the source has it if it is finished there, else as the run has it."""
    if listed is not None and listed.status is not TaskStatus.PENDING:
        return str(listed.status)
    if task.state == "done" and listed is not None:
        return "pending"  # its completion was undone in the source
    return task.state


PAGES = (PageRoute("/tasks", "tasks.html", "Tasks", query_board, menu=True, live=True),)
