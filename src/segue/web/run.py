"""The page of one run: what needs a person, how far it is, its tasks, what happens now, and its timeline."""

from __future__ import annotations

import time
from collections import Counter
from math import sqrt
from statistics import fmean, pvariance
from typing import TYPE_CHECKING, Any

from segue.domain.run import Run
from segue.reports.card.build import read_findings
from segue.store.rows import Rows
from segue.view.load import state_of
from segue.view.run import RunView
from segue.view.task import TaskView
from segue.web import queries
from segue.web.inbox import describe_item, list_waiting
from segue.web.lanes import query_lanes
from segue.web.live import find_last_event, make_line
from segue.web.routes import Data, PageRequest, PageRoute, slice_page
from segue.web.runs import describe_run
from segue.web.timeline import HIDDEN, build_timeline

if TYPE_CHECKING:
    from segue.store.store import Store


TASK_ROWS = 100
"""Tasks on one page."""

TIMELINE_ROWS = 20
"""Tasks in the timeline: those that were worked on last."""

DECISIONS = 3
"""Things to decide that are shown whole; the others are a click away."""

FEED = 100
"""Events read for the feed."""

_FEWEST = 3
"""Finished tasks from which the time that is left is estimated."""

_Z = 1.28
"""An interval of 80 % on the normal distribution."""

SHOWN = {
    "running": ("running", "parked"),
    "needs_human": ("needs_human",),
    "pending": ("pending", "blocked", "replanned", "stopped"),
    "done": ("done", "skipped", "cancelled"),
}
"""The filters of the tasks, by the states that each shows."""
_GROUPS = {state: name for name, states in SHOWN.items() for state in states}


def query_run(request: PageRequest) -> Data:
    """Return everything about one run that fits on a page."""
    store = request.store
    run = queries.get_run(store, request.path["run"])
    view = request.view(run)
    working = state_of(run) in queries.AT_WORK
    items = [item for item in list_waiting(run, view) if not item.kind.is_information]
    drawn = _choose_latest(view)
    known = queries.list_steps(store, run.id, drawn)
    now = int(time.time() * 1000)
    began = min([step["started"] for step in known], default=run.created)
    whole = [step for step in queries.list_run_steps(store, run.id) if step["phase"] not in HIDDEN]
    return {
        "title": run.title,
        **_list_rows(request, run, view),
        "note": "" if any(item.why and item.why in run.note for item in items) else run.note,
        "decisions": [describe_item(request, run, item) for item in items[:DECISIONS]],
        "waiting": len(items),
        "used": queries.describe_usage(view),
        "caps": queries.read_budget(request.app, run),
        "left": estimate_left(view, time.time()) if working else None,
        "proofs": _count_proofs(view),
        "open": [queries.describe_step(step) for step in known if step["state"] == "started" and working],
        "whole": [queries.describe_step(step) for step in whole],
        "before": view.before.data,
        "stuck": [{"task": task.key, "why": task.stuck} for task in view.tasks.values() if task.stuck],
        "pull_request": queries.describe_request(view),
        "lanes": query_lanes(store, run, view, working, TASK_ROWS),
        "timeline": build_timeline([*whole, *known], view, began, now if working else run.updated),
    }


def query_feed(request: PageRequest) -> Data:
    """Return the latest events of a run."""
    run = queries.get_run(request.store, request.path["run"])
    view = request.view(run)
    return {"title": run.title, "run": describe_run(run, view), "feed": read_feed(request.store, run.id)}


def _list_rows(request: PageRequest, run: Run, view: RunView) -> Data:
    shown = request.text("show")
    tasks = list(view.tasks.values())
    counts = Counter(_group(task) for task in tasks)
    chosen = [task for task in tasks if _group(task) == shown] if shown in SHOWN else tasks
    number, pages = request.page(len(chosen), TASK_ROWS)
    keys = [task.key for task in slice_page(chosen, number, TASK_ROWS)]
    steps = queries.list_steps(request.store, run.id, keys)
    return {
        "run": describe_run(run, view),
        "tasks": _describe_tasks(request.store, run, view, keys, steps),
        "done": view.done,
        "total": len(tasks),
        "shown": len(chosen),
        "counts": {name: counts[name] for name in SHOWN},
        "show": shown if shown in SHOWN else "",
        "page": number,
        "pages": pages,
    }


def _group(task: TaskView) -> str:
    return _GROUPS.get(task.state, "pending")


def _describe_tasks(
    store: Store, run: Run, view: RunView, keys: list[str], steps: Rows
) -> list[dict[str, Any]]:
    """Describe the tasks of a page, with their steps, and with the findings that are still open."""
    shown: dict[str, list[dict[str, Any]]] = {key: [] for key in keys}
    for step in steps:
        if step["phase"] not in HIDDEN:
            shown[step["task"]].append(queries.describe_step(step))
    reviewed = {step["task"]: step["key"] for step in steps if step["phase"] == "review"}
    return [
        {
            **queries.describe_task(view, task),
            "steps": shown[task.key],
            "findings": read_findings(store, run, reviewed.get(task.key)) if task.remaining else [],
        }
        for task in map(view.tasks.__getitem__, keys)
    ]


def estimate_left(view: RunView, now: float) -> dict[str, Any] | None:
    """Estimate how many seconds are left, with an interval of 80 %; None: too few tasks have ended.

    It takes tasks of a run as alike, which the interval makes up for: that of the sum of the tasks that are
    left, whose mean is known from those that ended. One at work for longer than any of them may need as much
    again.
    """
    ended = [task.work_ms / 1000 for task in view.tasks.values() if task.state == "done" and task.work_ms]
    left = [task for task in view.tasks.values() if task.state in ("pending", "running", "parked")]
    if len(ended) < _FEWEST or not left:
        return None
    mean, spread, count = fmean(ended), pvariance(ended), len(left)
    at_work = [view.task_seconds(task, now) or 0 for task in left]
    total = sum(max(mean - seconds, mean / 10) for seconds in at_work)
    late = sum(seconds for seconds in at_work if seconds > max(ended))
    wide = _Z * sqrt(spread * count * (1 + count / len(ended)))
    at_once = max(1.0, min(sum(ended) / max(view.seconds(now), 1), float(count)))
    return {
        "seconds": total / at_once,
        "low": max(total - wide, mean / 10) / at_once,
        "high": (total + wide + late) / at_once,
        "tasks": len(ended),
    }


def _count_proofs(view: RunView) -> dict[str, int]:
    """Count the tasks that are done by the level of their proof, the strongest first."""
    counts = Counter(task.proof.level for task in view.tasks.values() if task.state == "done" and task.proof)
    return {level.value: counts[level] for level in sorted(counts, key=lambda level: -level.rank)}


def _choose_latest(view: RunView) -> list[str]:
    """Choose the tasks that were worked on last, in the order of the run."""
    begun = [task for task in view.tasks.values() if task.started]
    latest = {task.key for task in sorted(begun, key=lambda task: -(task.started or 0))[:TIMELINE_ROWS]}
    return [task.key for task in begun if task.key in latest]


def read_feed(store: Store, run_id: str) -> list[dict[str, Any]]:
    """Return the latest events as sentences, newest last."""
    after = max(0, find_last_event(store, run_id) - FEED)
    return [line for event in store.events(run_id, after, FEED) if (line := make_line(event))["text"]]


def name_run(request: PageRequest) -> str:
    """Name the run that is asked for; raises NotFound."""
    return queries.get_run(request.store, request.path["run"]).title


_RUN = "/runs/{run}"
PAGES = (
    PageRoute(_RUN, "run.html", "Run", query_run, section="/runs", live=True, slow=True, name=name_run),
    PageRoute(f"{_RUN}/events", "feed.html", "Events", query_feed, section="/runs", live=True),
)
