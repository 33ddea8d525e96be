"""Tasks as JSON values, the same in `status`, in summaries and on the page."""

from __future__ import annotations

import time
from typing import Any

from segue.view.run import RunView
from segue.view.task import TaskView


def task_data(view: RunView, task: TaskView) -> dict[str, Any]:
    """Return one task as programs read it; `proof` is the level, or who accepted it."""
    names = ("key", "title", "state", "kind", "phase", "attempts", "verdict", "reason", "branch", "commit")
    return {
        **{name: getattr(task, name) for name in names},
        "proof": task.proof.words if task.proof else None,
        "tampering": task.tampering,
        "blocked_by": list(task.blocked_by),
        "lane": task.lane or None,
        "waits_for": list(task.waits_for),
        "waits_why": task.waits_why,
        "collisions": task.collisions,
        "merged": task.merged,
        "seconds": view.task_seconds(task, time.time()),
        "tokens": task.usage.tokens,
        "cost_usd": task.usage.cost_usd,
    }
