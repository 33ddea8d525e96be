"""Stops and continues runs of the fleet from any machine."""

from __future__ import annotations

import asyncio
import time

from segue.domain.errors import Locked, UsageError
from segue.domain.run import Run, RunState
from segue.fleet.queue import lock_of, open_queue, ring, silence
from segue.fleet.register import Register, bell_of
from segue.fleet.schema import address_of
from segue.runtime.app import App

_STOP_TIMEOUT = 60.0


async def stop(app: App, run: Run) -> Run:
    """Ask whoever drives a run to stop; one that nobody drives is taken out of the queue."""
    register = Register(address_of(app))
    async with open_queue(address_of(app)) as queue:
        await silence(queue, lock_of(run.id))
    if run.state in (RunState.DONE, RunState.STOPPED):
        return run
    deadline = time.monotonic() + _STOP_TIMEOUT
    asked = False
    while not register.stop(run.id):
        if not asked:
            with app.store() as store:
                store.send(run.id, "stop", {})
            asked = True
        now = register.find(run.id)
        if now is not None and now.owner is None and now.state is not RunState.RUNNING:
            return now
        if time.monotonic() > deadline:
            raise Locked(
                f"Run {run.id} was asked to stop, but its worker has not answered yet.",
                kept="It stops as soon as the worker hears of it.",
                hint="See: segue fleet status",
            )
        await asyncio.sleep(0.1)
    return register.find(run.id) or run


async def resume(app: App, run: Run) -> None:
    """Let workers continue a run."""
    if run.state is RunState.DONE:
        raise UsageError(f"Run {run.id} is done.", hint="Submit it again: segue submit SOURCE")
    register = Register(address_of(app))
    register.forgive(run.id)
    if not register.requeue(run.id):
        raise Locked(f"Run {run.id} is being driven.", hint=f"Follow it: segue logs -f {run.id}")
    async with open_queue(address_of(app)) as queue:
        await ring(queue, [bell_of(run)])
