"""What several commands say about runs; which run is meant is found by `runtime.find`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from segue.domain.errors import UsageError
from segue.runtime.find import NEWEST, newest_run
from segue.runtime.find import find_run as find_run
from segue.runtime.find import find_unfinished as find_unfinished
from segue.view.load import state_of as state_of

if TYPE_CHECKING:
    from segue.domain.run import Run
    from segue.ports import Source
    from segue.runtime.app import App
    from segue.store.store import Store

T = TypeVar("T")

NO_RUNS = "No runs here yet. Try: segue demo"


def read_past(app: App, source: Source, read: Callable[[Store, str], dict[str, T]]) -> dict[str, T]:
    """Return what the database knows about the tasks of a source; without a database it is nothing."""
    from segue.runtime.moved import known_key

    database = app.database()
    if "://" not in database and not Path(database).exists():
        return {}
    with app.store(read_only=True) as store:
        return read(store, known_key(store, app, source))


def find_run_and_task(store: Store, app: App, name: str | None, task: str | None) -> tuple[Run, str | None]:
    """Return the run that is meant, and the task; a task alone is one of the newest run."""
    if name is not None and name not in NEWEST and task is None:
        newest = newest_run(store, app)
        if newest is not None and name in newest.spec.titles:
            return newest, name
    return find_run(store, app, name), task


def unknown_task(run: Run, task: str, keys: Iterable[str]) -> UsageError:
    """Return the refusal of a task that a run does not have."""
    from segue.domain.text import suggest

    return UsageError(
        f"There is no task {task!r} in run {run.id}.{suggest(task, keys)}",
        hint=f"List its tasks: segue status {run.id}",
    )


def describe_wait(run: Run) -> str:
    """Say for whom a queued run waits, and since when."""
    needs = run.spec.origin.needs if run.spec.origin else ()
    words = [need.removeprefix("has:").replace("|", " or ") for need in needs]
    having = f" that has {', '.join(words)}" if words else ""
    if run.wake and run.wake > time.time() * 1000:
        return f"Begins at {moment(run.wake)}, on a worker{having}. The fleet: segue fleet status"
    return f"Waiting for a worker{having} since {moment(run.updated)}. The fleet: segue fleet status"


def moment(ms: int | None) -> str:
    """Format an instant in local time."""
    return "" if ms is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ms / 1000))
