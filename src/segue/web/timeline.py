"""The timeline of a run: a row per task, a bar per step, in thousandths of the time that passed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from segue.domain.amounts import format_duration
from segue.domain.text import cut_text
from segue.flow.phase import PHASES
from segue.store.rows import Rows
from segue.view.run import RunView
from segue.view.task import TaskView

HIDDEN = ("base", "end", "commit")
"""Steps too short to show."""
_LABELS = {"sleep": "Waiting for usage limit", "before": "Check what it begins with"}
_COLOURS = 12
"""Colours for phases: the classes `phase-1` and so on; `phase-0` is that of all other steps."""
_SCALE, _THIN = 1000, 3
"""The width of a row, and the least width of a bar, so that short steps can be seen."""


def label_phase(phase: str) -> str:
    """Return the name of a phase as people read it."""
    return PHASES[phase].label if phase in PHASES else _LABELS.get(phase, phase)


def colour_phase(phase: str) -> str:
    """Return the CSS class with the colour of a phase."""
    place = list(PHASES).index(phase) + 1 if phase in PHASES else 0
    return f"phase-{place}" if place <= _COLOURS else "phase-0"


def build_timeline(steps: Rows, view: RunView, began: int, last: int) -> dict[str, Any]:
    """Return the rows of these steps; one that has not ended lasts until `last`."""
    began = min([began, *(step["started"] for step in steps)])
    ends = [step["ended"] or max(last, step["started"]) for step in steps]
    length = max(max(ends, default=began) - began, 1)
    bars: dict[str | None, list[dict[str, Any]]] = {}
    for step in steps:
        if step["phase"] not in HIDDEN:
            bars.setdefault(step["task"], []).append(_build_bar(step, began, last, length))
    rows = [_build_row(view.tasks.get(key or ""), key or "", found) for key, found in bars.items()]
    return {"seconds": length / 1000, "rows": rows}


def _build_row(task: TaskView | None, key: str, bars: list[dict[str, Any]]) -> dict[str, Any]:
    if task is None:
        title = f"Task {key}" if key else "Whole run"
        return {"task": key, "title": title, "state": "", "lane": 0, "bars": bars}
    return {"task": key, "title": task.title, "state": task.state, "lane": task.lane, "bars": bars}


def _build_bar(step: Mapping[str, Any], began: int, last: int, length: int) -> dict[str, Any]:
    ended = step["ended"] if step["ended"] is not None else max(last, step["started"])
    x = min((step["started"] - began) / length * _SCALE, _SCALE - _THIN)
    width = max((ended - step["started"]) / length * _SCALE, _THIN)
    who = " ".join(part for part in (step["agent"], step["model"]) if part)
    parts = (
        f"{label_phase(str(step['phase']))} {step['attempt']}",
        format_duration((ended - step["started"]) / 1000),
        *(who, step["result"], step["action"], step["reason"]),
    )
    return {
        **{name: step[name] for name in ("seq", "phase", "attempt", "state")},
        "x": round(x, 1),
        "width": round(min(width, _SCALE - x), 1),
        "label": cut_text(" · ".join(str(part) for part in parts if part), 400),
    }
