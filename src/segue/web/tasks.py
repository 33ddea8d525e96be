"""The tasks of a source as a board, and the pages of one task: criteria, findings, diff, proof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.domain.errors import SegueError
from segue.domain.run import USUAL_RUNS, Run
from segue.domain.task import Task, TaskStatus
from segue.reports.card.build import build_cards
from segue.reports.card.card import ProofCard
from segue.reports.card.layout import lay_out
from segue.reports.timeline import HIDDEN
from segue.runtime.sources import read_source, read_tasks
from segue.view.load import select_kinds
from segue.view.run import RunView
from segue.view.task import TaskView
from segue.web import queries
from segue.web.diffs import find_task_commits, read_diff, read_patch, split_by_file
from segue.web.routes import Data, NotFound, PageRequest, PageRoute, slice_page
from segue.web.runs import describe_step
from segue.web.step import cut_piece

if TYPE_CHECKING:
    from segue.store.store import Store


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


_CARD = ("criteria", "findings", "missing", "reasons", "judge", "agents", "isolation", "open_findings")


def query_task(request: PageRequest) -> Data:
    """Return everything about one task that fits on a page; the diff is fetched when it is opened."""
    run, view, key = find_task(request)
    steps = queries.list_steps(request.store, run.id, [key])
    known = _build_card(request, run, key).to_json()
    return {
        "title": view.tasks[key].title,
        "run": queries.describe_place(run),
        "task": queries.describe_task(view, view.tasks[key]),
        "card": {name: known[name] for name in _CARD},
        "comments": list(view.comments.get(key, ())),
        "steps": [describe_step(step) for step in steps if step["phase"] not in HIDDEN],
        "self": f"/runs/{run.id}/tasks/{key}",
    }


def query_diff(request: PageRequest) -> Data:
    """Return everything that the work on one task has changed, a piece at a time."""
    run, view, key = find_task(request)
    text, why, cut = _read_work(request, run, key)
    part = cut_piece(text, request.number("from"))
    return {
        "title": f"Diff of task {key}",
        "run": queries.describe_place(run),
        "task": queries.describe_task(view, view.tasks[key]),
        "diff": {**part, "text": "", "files": split_by_file(part["text"])} if part["total"] else None,
        "no_diff": why,
        "cut": cut,
        "self": f"/runs/{run.id}/tasks/{key}/diff",
    }


def find_task(request: PageRequest) -> tuple[Run, RunView, str]:
    """Find the run and the task that an address names."""
    run = queries.get_run(request.store, request.path["run"])
    view, key = request.view(run), request.path["task"]
    if key not in view.tasks:
        raise NotFound(f"There is no task {key[:60]!r} in run {run.id}.", hint=f"See /runs/{run.id}")
    return run, view, key


def query_proof(request: PageRequest) -> Data:
    """Return the card of one task, and what the badges beside it need."""
    run, view, key = find_task(request)
    return {
        "title": f"Proof of task {key}",
        "run": run.id,
        "task": queries.describe_task(view, view.tasks[key]),
        "card": _build_card(request, run, key).to_json(),
    }


def present_proof(data: Data) -> Data:
    """Arrange the card for people."""
    return {"layout": lay_out(msgspec.convert(data["card"], ProofCard))}


def _build_card(request: PageRequest, run: Run, key: str) -> ProofCard:
    [card] = build_cards(request.store, run, read_tasks(request.app, run)[0], keys=(key,))
    return card


def _read_work(request: PageRequest, run: Run, key: str) -> tuple[str, str, int]:
    """Return the diff of a task, or why there is none, and how many characters were not recorded."""
    patch = read_patch(request.store, run.id, key)
    if patch is not None:
        return patch.diff, "" if patch.diff else "The last attempt left nothing changed.", patch.cut
    commits = find_task_commits(request.store, run.id, key)
    if commits is None:
        return "", "No change was recorded.", 0
    try:
        return *read_diff(request.app, run, *commits), 0
    except SegueError as error:
        return "", str(error), 0


_TASK = "/runs/{run}/tasks/{task}"
PAGES = (
    PageRoute("/tasks", "tasks.html", "Tasks", query_board, menu=True, live=True),
    PageRoute(_TASK, "task.html", "Task", query_task, section="/runs", live=True),
    PageRoute(f"{_TASK}/diff", "diff.html", "Diff", query_diff, section="/runs"),
    PageRoute(
        f"{_TASK}/proof", "proof.html", "Proof", query_proof, present_proof, section="/runs", live=True
    ),
)
