"""The lanes of a run: what each works on now."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from segue.domain.run import Run
from segue.view.lanes import lanes_data
from segue.view.run import RunView
from segue.web.live import find_last_event, make_line

if TYPE_CHECKING:
    from segue.store.store import Store

_RECENT = 400
"""Among how many of the latest events is looked for what a task does now."""


def query_lanes(store: Store, run: Run, view: RunView, going: bool, size: int) -> dict[str, Any] | None:
    """Return what a page of `size` tasks shows of the lanes; None where one task at a time is worked on."""
    now = time.time()
    data = lanes_data(view, now)
    if data is None:
        return None
    rows = _list_rows(store, run, view, now) if going else []
    shown = {row["task"] for row in rows}
    pages = {key: place // size + 1 for place, key in enumerate(view.tasks) if key in shown}
    return {**data, "rows": rows, "pages": pages}


def _list_rows(store: Store, run: Run, view: RunView, now: float) -> list[dict[str, Any]]:
    doing = _find_activity(store, run.id)
    rows = []
    for lane in range(1, view.lane_count + 1):
        task = view.lanes.get(lane)
        row: dict[str, Any] = {"lane": lane, "task": None}
        if task is not None:
            names = ("title", "state", "phase", "agent", "wake", "collisions")
            row |= {"task": task.key, **{name: getattr(task, name) for name in names}}
            row |= {"seconds": view.task_seconds(task, now), "doing": doing.get(task.key, "")}
        rows.append(row)
    return rows


def _find_activity(store: Store, run_id: str) -> dict[str, str]:
    """Return what happened last to each task, among the latest events."""
    found: dict[str, str] = {}
    for event in store.events(run_id, max(0, find_last_event(store, run_id) - _RECENT), _RECENT):
        place = (event.step or "").split("/")
        if place[0] == "task" and len(place) > 1 and (text := make_line(event)["text"]):
            found[place[1]] = text
    return found
