"""Views of stored runs: what `status`, the page and the summary show."""

from __future__ import annotations

import time

from segue.domain.run import Run, RunState
from segue.ports import Store
from segue.system import identity
from segue.view.run import FOLDED, RunView

_STARTING = 10.0
"""Seconds a run may be without a process while one is being started in the background."""


def load_view(store: Store, run: Run) -> RunView:
    """Return the view of a stored run."""
    return RunView.of(run.spec.titles, store.events(run.id, kinds=FOLDED)).close(state_of(run))


def state_of(run: Run) -> RunState:
    """Return the state a run is really in: one whose process is gone does not run."""
    if run.state in (RunState.RUNNING, RunState.PARKED) and _is_abandoned(run):
        return RunState.STOPPED
    return run.state


def _is_abandoned(run: Run) -> bool:
    if run.owner is None:
        return time.time() - run.updated / 1000 > _STARTING
    return identity.is_dead(run.owner.split("#")[0])
