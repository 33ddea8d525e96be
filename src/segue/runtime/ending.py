"""How a process ends its work on a run, and when the last one was heard of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.domain.errors import (
    CheckUnready,
    CredentialsError,
    HandedOver,
    Interrupted,
    JudgeFailed,
    NeedsHuman,
    SegueError,
    ServiceAway,
    StoreAway,
    TimeLimit,
)
from segue.domain.events import RunEnded
from segue.domain.run import RunState

if TYPE_CHECKING:
    from segue.store.journal import Journal
    from segue.store.store import Store


def state_after(error: SegueError | None) -> RunState:
    """Return the state of a run that an error has ended, or nothing."""
    if error is None:
        return RunState.DONE
    if isinstance(error, NeedsHuman | CredentialsError | CheckUnready):
        return RunState.NEEDS_HUMAN
    if isinstance(error, ServiceAway | StoreAway):
        return RunState.PARKED
    if isinstance(error, HandedOver):
        return RunState.QUEUED
    return RunState.STOPPED if isinstance(error, Interrupted | TimeLimit | JudgeFailed) else RunState.FAILED


def last_seen(store: Store, run: str) -> int | None:
    """Return when the last process of a run was heard of, in milliseconds since the epoch."""
    found = store.query(
        "SELECT ts FROM orchestrator_events WHERE run_id = ? ORDER BY seq DESC LIMIT 1", [run]
    )
    return int(found[0]["ts"]) if found else None


async def close_run(journal: Journal, state: RunState, note: str, wake: float | None = None) -> None:
    """Record that this process ends its work on the run."""
    await journal.emit(RunEnded(state, note))
    await journal.set_state(state, note, wake)
