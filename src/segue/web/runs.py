"""The list of runs, and the page of one: its timeline, lanes, feed, and tasks with their steps."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from segue.domain.errors import SegueError
from segue.domain.events import PLAN_GATE
from segue.domain.run import USUAL_RUNS, Run, RunKind, RunState
from segue.reports.card.build import read_findings
from segue.reports.drawing import draw_timeline, list_phases
from segue.reports.timeline import HIDDEN, Rows, Timeline, build_timeline
from segue.runtime.comments import read_plan_text
from segue.runtime.sources import load_run_app
from segue.view.load import select_kinds, state_of
from segue.view.run import RunView
from segue.web import queries
from segue.web.events import escape_like
from segue.web.lanes import present_lanes, query_lanes
from segue.web.live import find_last_event, make_line
from segue.web.routes import Data, PageRequest, PageRoute, slice_page

if TYPE_CHECKING:
    from segue.store.store import Store


SIZE = 25
"""Runs on one page."""

FILTERS = ("q", "repo", "source", "agent", "flow", "state", "kind")
_SPEC = ("repo", "source", "agent", "flow")
_WORDS = " OR ".join(
    f"lower({place}) LIKE lower(?) ESCAPE '!'"
    for place in ("id", "note", *(f"spec->>'{name}'" for name in ("source", "repo", "agent", "model")))
)
"""Where the search looks."""


def query_runs(request: PageRequest) -> Data:
    """Return one page of the runs that match, and the choices of the filters."""
    chosen = {name: request.text(name) for name in FILTERS}
    conditions = [(f"spec->>'{name}' = ?", chosen[name]) for name in _SPEC if chosen[name]]
    kinds = (RunKind(chosen["kind"]),) if chosen["kind"] in set(RunKind) else USUAL_RUNS
    found = _find_ids(request.store, kinds, conditions, chosen)
    number, pages = request.page(len(found), SIZE)
    shown = slice_page(found, number, SIZE)
    return {
        "runs": [_make_row(run, request.view(run)) for run in map(request.store.run, shown) if run],
        "total": len(found),
        "page": number,
        "pages": pages,
        "filters": chosen,
        "filtered": any(chosen.values()),
        "choices": _list_choices(request.store),
        "any": bool(request.store.runs(limit=1)),
    }


def _find_ids(
    store: Store, kinds: Sequence[RunKind], conditions: list[tuple[str, str]], chosen: Mapping[str, str]
) -> list[str]:
    """Find the ids of the runs that match, newest first."""
    state = chosen["state"]
    where = " AND ".join([select_kinds(kinds), *(condition for condition, _ in conditions)])
    values: list[object] = [value for _, value in conditions]
    if chosen["q"]:
        text, words = match_words(chosen["q"])
        where, values = f"{where} AND {text}", [*values, *words]
    if state and state not in (RunState.RUNNING, RunState.PARKED, RunState.STOPPED):
        where, values = f"{where} AND state = ?", [*values, state]
        state = ""
    sql = f"SELECT id, state FROM orchestrator_runs WHERE {where} ORDER BY created DESC, id"  # noqa: S608
    rows = store.query(sql, values)
    if not state:
        return [str(row["id"]) for row in rows]
    return [str(row["id"]) for row in rows if _actual_state(store, row) == state]


def match_words(words: str) -> tuple[str, list[object]]:
    """Return the condition for runs with these words, whatever their case, and its arguments."""
    return f"({_WORDS})", [f"%{escape_like(words)}%"] * _WORDS.count("?")


def _actual_state(store: Store, row: dict[str, Any]) -> str:
    """Return the state of a run; one whose process is gone is stopped, whatever its row says."""
    if row["state"] not in (RunState.RUNNING, RunState.PARKED):
        return str(row["state"])
    run = store.run(str(row["id"]))
    return state_of(run) if run else ""


def _make_row(run: Run, view: RunView) -> dict[str, Any]:
    return {
        **describe_run(run, view),
        "tasks": len(view.tasks),
        "done": view.done,
        "needs_human": sum(task.state == "needs_human" for task in view.tasks.values()),
        **queries.describe_usage(view),
    }


def describe_run(run: Run, view: RunView) -> dict[str, Any]:
    """Describe a run: its state, and with what it was started."""
    state, spec = state_of(run, view), run.spec
    return {
        **{name: getattr(run, name) for name in ("id", "note", "created", "updated", "wake")},
        **{name: getattr(spec, name) for name in ("source", "kind", "agent", "model", "flow", "repo")},
        "name": run.source_name,
        "repo_name": PurePath(spec.repo).name,
        "has_tasks": spec.kind.has_tasks,
        "state": state,
        "going": state in queries.ACTIVE,
        "working": state in queries.AT_WORK,
        "fleet": _describe_origin(run),
        "findings": sum(task.remaining for task in view.tasks.values() if task.state == "done"),
        "proof": _find_weakest(view),
        "isolation": view.isolation or None,
    }


def _find_weakest(view: RunView) -> str | None:
    """Return how well everything is proven that is done: as well as the weakest task; None: not known."""
    proofs = [task.proof for task in view.tasks.values() if task.state == "done"]
    known = [proof.level for proof in proofs if proof is not None]
    return min(known, key=lambda level: level.rank) if known and len(known) == len(proofs) else None


def _describe_origin(run: Run) -> dict[str, Any] | None:
    """Describe what was submitted to a fleet; None for a run of one machine."""
    origin = run.spec.origin
    if origin is None:
        return None
    return {name: getattr(origin, name) for name in ("commit", "branch", "needs", "priority", "submitter")}


def _list_choices(store: Store) -> dict[str, list[str]]:
    columns = ", ".join(f"spec->>'{name}' AS {name}" for name in _SPEC)
    rows = store.query(f"SELECT DISTINCT {columns} FROM orchestrator_runs")  # noqa: S608
    found = {name: sorted({str(row[name]) for row in rows if row[name]}) for name in _SPEC}
    return {**found, "state": list(map(str, RunState)), "kind": list(map(str, RunKind))}


TASK_ROWS = 20
"""Tasks on one page, also in the timeline."""

FEED = 40
"""Events read for the feed."""


def query_run(request: PageRequest) -> Data:
    """Return everything about one run that fits on a page."""
    store = request.store
    run = queries.get_run(store, request.path["run"])
    state, view = state_of(run), request.view(run)
    number, pages, keys = _choose_tasks(request, view)
    steps = queries.list_steps(store, run.id, keys)
    whole = queries.list_run_steps(store, run.id) if number == 1 else []
    going, working = state in queries.ACTIVE, state in queries.AT_WORK
    return {
        "title": run.source_name,
        "run": describe_run(run, view),
        "used": queries.describe_usage(view),
        "caps": queries.read_budget(request.app, run),
        "open": [describe_step(step) for step in steps if step["state"] == "started" and working],
        "tasks": _describe_tasks(store, run, view, keys, steps),
        "whole": [describe_step(step) for step in whole if step["phase"] not in HIDDEN],
        "before": view.before.data,
        "pull_request": describe_request(view),
        "lanes": query_lanes(store, run, view, working, TASK_ROWS),
        "timeline": _build_timeline(run, state, [*whole, *steps], view),
        "plan": read_plan(request, run, view) if not going else None,
        "feed": read_feed(store, run.id),
        "done": view.done,
        "total": len(view.tasks),
        "page": number,
        "pages": pages,
    }


def describe_request(view: RunView) -> dict[str, Any] | None:
    """Return the pull request of the run, if it has one whose address can be opened."""
    found = view.delivery
    if found is None or not found.url.startswith(("https://", "http://")):
        return None
    return {"number": found.number, "url": found.url, "draft": found.draft, "label": found.label}


def read_plan(request: PageRequest, run: Run, view: RunView) -> str | None:
    """Return the plan as text to edit, while the run waits for a person's word on it."""
    if view.gate != PLAN_GATE or run.state is not RunState.NEEDS_HUMAN:
        return None
    try:
        return read_plan_text(load_run_app(request.app, run), run)
    except (SegueError, OSError):
        return None


def _choose_tasks(request: PageRequest, view: RunView) -> tuple[int, int, list[str]]:
    """Choose the tasks to show: the requested page, else the one with the current task."""
    keys = list(view.tasks)
    pages = max(1, -(-len(keys) // TASK_ROWS))
    number = min(request.number("page") or (_find_current(view) // TASK_ROWS + 1), pages)
    return number, pages, keys[(number - 1) * TASK_ROWS : number * TASK_ROWS]


def _find_current(view: RunView) -> int:
    """Return the place of the task that was begun last; 0 if all are done."""
    tasks = list(view.tasks.values())
    if view.done == len(tasks):
        return 0
    return max(range(len(tasks)), key=lambda place: tasks[place].started or 0, default=0)


def _describe_tasks(
    store: Store, run: Run, view: RunView, keys: list[str], steps: Rows
) -> list[dict[str, Any]]:
    """Describe the tasks of a page, with their steps, and with the findings that are still open."""
    shown: dict[str, list[dict[str, Any]]] = {key: [] for key in keys}
    for step in steps:
        if step["phase"] not in HIDDEN:
            shown[step["task"]].append(describe_step(step))
    reviewed = {step["task"]: step["key"] for step in steps if step["phase"] == "review"}
    return [
        {
            **queries.describe_task(view, task),
            "steps": shown[task.key],
            "findings": read_findings(store, run, reviewed.get(task.key)) if task.remaining else [],
        }
        for task in map(view.tasks.__getitem__, keys)
    ]


def describe_step(step: dict[str, Any]) -> dict[str, Any]:
    """Describe a step in one line of a task."""
    names = ("seq", "key", "task", "phase", "attempt", "agent", "model", "state", "started")
    ended = step["ended"]
    return {
        **{name: step[name] for name in (*names, "result", "action", "reason")},
        "seconds": (ended - step["started"]) / 1000 if ended else None,
        "old": step["superseded"] is not None,
    }


def _build_timeline(run: Run, state: RunState, steps: Rows, view: RunView) -> Timeline:
    now = int(time.time() * 1000) if state in queries.AT_WORK else run.updated
    began = min([step["started"] for step in steps], default=run.created)
    return build_timeline(run, steps, view, began, now)


def read_feed(store: Store, run_id: str) -> list[dict[str, Any]]:
    """Return the latest events as sentences, newest last."""
    after = max(0, find_last_event(store, run_id) - FEED)
    return [line for event in store.events(run_id, after, FEED) if (line := make_line(event))["text"]]


def present_run(data: Data) -> Data:
    """Draw the timeline, whose bars link to the steps, list the phases of its legend, and draw the lanes."""
    drawing = draw_timeline(data["timeline"], link="#step-")
    return {
        "drawing": Markup(drawing),  # noqa: S704 - it is escaped
        "legend": list_phases(data["timeline"]),
        "lanes": present_lanes(data["run"]["id"], data["lanes"]),
    }


def name_run(request: PageRequest) -> str:
    """Name the run that is asked for; raises NotFound."""
    return queries.get_run(request.store, request.path["run"]).source_name


PAGES = (
    PageRoute("/runs", "runs.html", "Runs", query_runs, menu=True, live=True, slow=True),
    PageRoute(
        "/runs/{run}",
        "run.html",
        "Run",
        query_run,
        present_run,
        section="/runs",
        live=True,
        slow=True,
        name=name_run,
    ),
)
