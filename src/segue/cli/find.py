"""Find the run a command is about."""

from __future__ import annotations

from segue.domain.errors import UsageError
from segue.domain.run import Run, RunState
from segue.ports import Store
from segue.runtime.wiring import App


def named(store: Store, run_id: str) -> Run:
    """The run with this id, or a unique beginning of it."""
    run = store.run(run_id)
    if run is None:
        raise UsageError(f"There is no run {run_id!r}.", hint="List them with: segue status")
    return run


def latest(store: Store, app: App, unfinished: bool = False) -> Run | None:
    """The newest run, one of this repository first."""
    runs = [r for r in store.runs() if not unfinished or r.state is not RunState.DONE]
    here = str(app.repo)
    near = [r for r in runs if _inside(here, r.place) or _inside(here, r.spec.repo)]
    return next(iter([*near, *runs]), None)


def _inside(here: str, folder: str) -> bool:
    return here == folder or here.startswith(folder.rstrip("/") + "/")
