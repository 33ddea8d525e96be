"""How runs and tasks look: the same words and columns in every command."""

from __future__ import annotations

import time
from typing import Any

from segue.domain.run import Run
from segue.store.projections import TaskView
from segue.store.projections import state_of as state_of


def duration(seconds: float | None) -> str:
    """A duration as people say it."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{rest:02d}s"


def moment(ms: int | None) -> str:
    """An instant in local time."""
    return "" if ms is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ms / 1000))


def run_data(run: Run, views: list[TaskView]) -> dict[str, Any]:
    """The machine contract of one run."""
    return {
        "id": run.id,
        "state": state_of(run),
        "flow": run.spec.flow,
        "agent": run.spec.agent,
        "model": run.spec.model,
        "source": run.spec.source,
        "repo": run.spec.repo,
        "worktree": run.place if run.spec.worktree else None,
        "created": run.created,
        "updated": run.updated,
        "wake": run.wake,
        "note": run.note,
        "tasks": [_task_data(view) for view in views],
    }


def _task_data(view: TaskView) -> dict[str, Any]:
    names = ("key", "title", "state", "phase", "attempts", "verdict", "reason", "branch", "commit")
    data = {name: getattr(view, name) for name in names}
    return {**data, "seconds": view.seconds, "tokens": view.tokens, "cost_usd": view.cost_usd}
