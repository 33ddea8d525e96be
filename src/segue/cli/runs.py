"""Find the run a command is about, and describe it as data."""

from __future__ import annotations

import time
from typing import Any

from segue.domain.errors import UsageError
from segue.domain.run import TASK_RUNS, Run, RunState
from segue.ports import Store
from segue.runtime.app import App
from segue.view.data import task_data
from segue.view.load import is_lost
from segue.view.load import state_of as state_of
from segue.view.run import RunView

_KNOWN = 200
"""Among how many of the newest runs a mistyped one is searched."""
NO_RUNS = "No runs here yet. Try: segue demo"


def find_run(store: Store, app: App, name: str | None, *, unfinished: bool = False) -> Run | None:
    """Return the run with this id or unique prefix; for `last`, the newest of this repository with tasks.

    Without a name it is the newest too, or with `unfinished` the newest that did not finish.
    """
    if name is not None and name != "last":
        run = store.run(name)
        if run is None:
            raise UsageError(
                f"There is no run {name!r}.{_meant(store, name)}", hint="List the runs: segue status"
            )
        return run
    return _newest(store, app, unfinished and name is None)


def _meant(store: Store, name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, [run.id for run in store.runs(limit=_KNOWN)], n=1, cutoff=0.8)
    return f" Did you mean {near[0]!r}?" if near else ""


def _newest(store: Store, app: App, unfinished: bool) -> Run | None:
    """Return the newest run of this repository; those of others are reached by their ids."""
    runs = (run for run in store.runs(kinds=TASK_RUNS) if not unfinished or run.state is not RunState.DONE)
    here = str(app.repo)
    near = (run for run in runs if _is_inside(here, run.place) or _is_inside(here, run.spec.repo))
    return next(near, None)


def _is_inside(here: str, folder: str) -> bool:
    return here == folder or here.startswith(folder.rstrip("/") + "/")


def moment(ms: int | None) -> str:
    """Format an instant in local time."""
    return "" if ms is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ms / 1000))


def run_data(run: Run, view: RunView) -> dict[str, Any]:
    """Return one run as programs read it: the machine contract of `status`."""
    return {
        "id": run.id,
        "state": state_of(run),
        "lost": is_lost(run),
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
        "waiting": [
            {"service": wait.service, "reason": wait.reason, "since": since, "until": wait.until}
            for since, wait in view.waits.values()
        ],
        "tasks": [task_data(view, task) for task in view.tasks.values()],
    }
