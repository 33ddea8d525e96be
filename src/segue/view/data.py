"""Runs and tasks as JSON values, the same in `status`, in summaries, on the page and over MCP."""

from __future__ import annotations

import time
from typing import Any

from segue.domain.run import Run
from segue.domain.statement import list_marks, name_level
from segue.view.lanes import lanes_data
from segue.view.load import is_lost, state_of
from segue.view.run import RunView
from segue.view.task import TaskView

_NAMES = (
    *("key", "title", "state", "kind", "phase", "attempts", "verdict", "reason", "branch", "commit", "kept"),
    *("agent_id", "url"),
)


def task_data(view: RunView, task: TaskView) -> dict[str, Any]:
    """Return one task as programs read it; `proof` is the level, and `marks` are what stands beside it."""
    return {
        **{name: getattr(task, name) for name in _NAMES},
        "proof": name_level(task.proof) if task.proof else None,
        "marks": [mark.name for mark in list_marks(task.proof)] if task.proof else [],
        "tampering": task.tampering,
        "blocked_by": list(task.blocked_by),
        "lane": task.lane or None,
        "waits_for": list(task.waits_for),
        "waits_why": task.waits_why,
        "stuck": task.stuck,
        "collisions": task.collisions,
        "merged": task.merged,
        "seconds": view.task_seconds(task, time.time()),
        "tokens": task.usage.tokens,
        "cost_usd": task.usage.cost_usd,
        "over_budget": task.over_budget or None,
    }


def run_data(run: Run, view: RunView) -> dict[str, Any]:
    """Return one run as programs read it: the machine contract of `status`."""
    return {
        "id": run.id,
        "kind": run.spec.kind,
        "state": state_of(run, view),
        "lost": is_lost(run),
        "flow": run.spec.flow,
        "agent": run.spec.agent,
        "model": run.spec.model,
        "source": run.spec.source,
        "repo": run.spec.repo,
        "isolation": view.isolation or None,
        "worktree": run.place if run.spec.worktree else None,
        "delivery": _delivery_data(view),
        "created": run.created,
        "updated": run.updated,
        "wake": run.wake,
        "note": run.note,
        "waiting": [
            {"service": wait.service, "reason": wait.reason, "since": since, "until": wait.until}
            for since, wait in view.waits.values()
        ],
        "before": view.before.data,
        "input_tokens": view.usage.input_tokens,
        "cached_tokens": view.usage.cached_tokens,
        "spent": view.work.spent_seconds(time.time()),
        "lanes": lanes_data(view, time.time()),
        "tasks": [task_data(view, task) for task in view.tasks.values()],
    }


def _delivery_data(view: RunView) -> dict[str, Any] | None:
    """Return what became of the work; None: it is where the run works."""
    found = view.delivery
    if found is None:
        return None
    names = ("branch", "base", "head", "number", "url", "draft", "label")
    return {"kind": found.delivery, **{name: getattr(found, name) for name in names}}
