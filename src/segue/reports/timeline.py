"""The timeline of one run: a lane per task, a bar per step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from segue.domain.run import Run
from segue.view.run import RunView
from segue.view.task import TaskView

if TYPE_CHECKING:
    pass


Rows = list[dict[str, Any]]
"""What a query returns."""

HIDDEN = ("base", "end", "commit")
"""Steps too short to show."""


class Bar(Struct, frozen=True):
    """One step, in seconds since the start of the run."""

    phase: str
    attempt: int
    begin: float
    end: float
    state: str
    result: str
    action: str
    reason: str
    who: str
    seq: int = 0
    """The number of its first event: its address on pages."""

    @property
    def seconds(self) -> float:
        """Its duration."""
        return self.end - self.begin


class TimelineRow(Struct, frozen=True):
    """The steps of one task, or those of the run as a whole."""

    task: str
    title: str
    build_phase: str
    bars: tuple[Bar, ...]
    state: str
    """The state of the task; empty for the run as a whole."""
    seconds: float | None = None
    """How long the task was worked on; None for the run as a whole."""


class Timeline(Struct, frozen=True):
    """One run over time."""

    run: str
    title: str
    state: str
    seconds: float
    lanes: tuple[TimelineRow, ...]


def build_timeline(run: Run, steps: Rows, view: RunView, began: int, last: int) -> Timeline:
    """Build the timeline of these steps; one that has not ended lasts until `last`."""
    began = min([began, *(step["started"] for step in steps)])
    ends = [step["ended"] or last for step in steps] or [began]
    by_task: dict[str | None, Rows] = {}
    for step in steps:
        by_task.setdefault(step["task"], []).append(step)
    tasks = {key: view.tasks.get(key) or TaskView(key, f"Task {key}") for key in by_task if key is not None}
    lanes = [_build_lane(tasks.get(key or ""), rows, began, last) for key, rows in by_task.items()]
    seconds = max(0.0, (max(ends) - began) / 1000)
    who = run.spec.agent + (f" {run.spec.model}" if run.spec.model else "")
    return Timeline(
        run.id, f"{run.spec.source} · {who}", run.state, seconds, tuple(lane for lane in lanes if lane.bars)
    )


def _build_lane(task: TaskView | None, steps: Rows, start: int, last: int) -> TimelineRow:
    shown = [step for step in steps if step["phase"] not in HIDDEN]
    return TimelineRow(
        task.key if task else "",
        task.title if task else "Whole run",
        next((str(step["build_phase"]) for step in steps if step["build_phase"]), ""),
        tuple(_build_bar(step, start, last) for step in shown),
        task.state if task else "",
        task.seconds if task else None,
    )


def _build_bar(step: Mapping[str, Any], start: int, last: int) -> Bar:
    begin = max(0.0, (step["started"] - start) / 1000)
    ended = step["ended"] if step["ended"] is not None else max(last, step["started"])
    who = " ".join(part for part in (step["agent"], step["model"]) if part)
    return Bar(
        str(step["phase"] or ""),
        int(step["attempt"]),
        begin,
        max(begin, (ended - start) / 1000),
        str(step["state"]),
        str(step["result"] or ""),
        str(step["action"] or ""),
        str(step["reason"] or ""),
        who,
        int(step["seq"]),
    )
