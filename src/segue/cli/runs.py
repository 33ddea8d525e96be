"""Find the run a command is about, and describe it as data."""

from __future__ import annotations

import time
from typing import Any

from segue.domain.errors import UsageError
from segue.domain.run import Run, RunState
from segue.ports import Store
from segue.runtime.wiring import App
from segue.store.projections import TaskView
from segue.store.projections import state_of as state_of

NO_RUNS = "No runs yet. Try: segue demo"


def find_run(store: Store, app: App, name: str | None, *, unfinished: bool = False) -> Run | None:
    """Return the run with this id or unique prefix; for None or `last`, the newest one."""
    if name is None or name == "last":
        return _latest(store, app, unfinished)
    run = store.run(name)
    if run is None:
        raise UsageError(f"There is no run {name!r}.", hint="List the runs: segue status")
    return run


def _latest(store: Store, app: App, unfinished: bool) -> Run | None:
    """Return the newest run, preferring runs of this repository."""
    runs = [run for run in store.runs() if not unfinished or run.state is not RunState.DONE]
    here = str(app.repo)
    near = [run for run in runs if _is_inside(here, run.place) or _is_inside(here, run.spec.repo)]
    return next(iter([*near, *runs]), None)


def _is_inside(here: str, folder: str) -> bool:
    return here == folder or here.startswith(folder.rstrip("/") + "/")


def moment(ms: int | None) -> str:
    """Format an instant in local time."""
    return "" if ms is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ms / 1000))


def run_data(run: Run, views: list[TaskView]) -> dict[str, Any]:
    """Return one run as programs read it: the machine contract of `status`."""
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
