"""Views of stored runs: what `status`, the page and the summary show."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from segue.domain.run import TASK_RUNS, Run, RunKind, RunState
from segue.system import identity

if TYPE_CHECKING:
    from segue.store.store import Store
    from segue.view.run import RunView

ACTIVE = (RunState.QUEUED, RunState.RUNNING, RunState.PARKED)
"""The states of a run that a process works on, or will."""
AT_WORK = (RunState.RUNNING, RunState.PARKED)
"""The states of a run that a process works on."""
_STARTING = 60.0
"""Seconds a run may be without a process while one is being started in the background."""


def select_kinds(kinds: Iterable[RunKind] = TASK_RUNS) -> str:
    """Return the condition on `orchestrator_runs` for some kinds of runs."""
    names = ", ".join(f"'{kind.value}'" for kind in kinds)
    return f"kind IN ({names})"


def load_view(store: Store, run: Run) -> RunView:
    """Return the view of a stored run."""
    from segue.view.run import FOLDED, RunView  # a list of runs needs no views

    return RunView.of(run.spec.titles, store.events(run.id, kinds=FOLDED)).close(state_of(run))


def state_of(run: Run, view: RunView | None = None) -> RunState:
    """Return the state a run is really in: one whose process is gone does not run.

    With its view, a run of which only some lanes are parked is running.
    """
    if is_lost(run):
        return RunState.STOPPED
    lanes = view.lanes.values() if view is not None and run.state is RunState.PARKED else ()
    return RunState.RUNNING if any(task.state == "running" for task in lanes) else run.state


def is_lost(run: Run) -> bool:
    """Return whether the process of a run is gone without having said how the run ended."""
    if run.spec.origin is not None:
        return False  # another worker takes it over
    if run.state is RunState.PARKED and run.wake is None and run.owner is None:
        return False  # until a service is back that was away for too long
    return run.state in ACTIVE and _is_abandoned(run)


def _is_abandoned(run: Run) -> bool:
    if run.owner is None:
        return abs(time.time() - run.updated / 1000) > _STARTING
    return identity.is_dead(run.owner.split("#")[0])
