"""Stops and continues runs, wherever they are driven: on this machine, or on one of a fleet."""

from __future__ import annotations

import asyncio
import time

from segue.domain.errors import Locked, UsageError
from segue.domain.run import Run, RunState
from segue.runtime import background
from segue.runtime.app import App

_STOP_TIMEOUT = 60.0


async def stop_run(app: App, run: Run) -> Run:
    """End a run: ask whoever drives it; return it as it is then."""
    if run.spec.origin is None:
        return await background.stop_run(app, run)
    return await _stop_far(app, run)


async def start_resume(app: App, run: Run) -> None:
    """Continue a run in a process of its own, or on a worker of the fleet."""
    if run.spec.origin is None:
        await background.start_resume(app, run)
    else:
        await requeue(app, run)


async def requeue(app: App, run: Run) -> None:
    """Let the workers of the fleet continue a run."""
    from segue.fleet.queue import open_queue, ring
    from segue.fleet.register import Register, bell_of
    from segue.fleet.schema import address_of

    if run.state is RunState.DONE:
        raise UsageError(f"Run {run.id} is done.", hint="Submit it again: segue submit SOURCE")
    with Register(address_of(app)) as register:
        register.forgive(run.id)
        if not register.requeue(run.id):
            raise Locked(f"Run {run.id} is being driven.", hint=f"Follow it: segue logs -f {run.id}")
    async with open_queue(address_of(app)) as queue:
        await ring(queue, [bell_of(run)])


async def _stop_far(app: App, run: Run) -> Run:
    """Ask the worker that drives a run to stop it; take one that nobody drives out of the queue."""
    from segue.fleet.queue import lock_of, open_queue, silence
    from segue.fleet.register import Register
    from segue.fleet.schema import address_of

    if run.state in (RunState.DONE, RunState.STOPPED):
        return run
    async with open_queue(address_of(app)) as queue:
        await silence(queue, lock_of(run.id))
    deadline, asked = time.monotonic() + _STOP_TIMEOUT, False
    with Register(address_of(app)) as register:
        while not register.stop(run.id):
            if not asked:
                with app.store() as store:
                    store.send(run.id, "stop", {})
                asked = True
            if time.monotonic() > deadline:
                raise Locked(
                    f"Run {run.id} was asked to stop, but its worker has not answered yet.",
                    kept="It stops as soon as the worker hears of it.",
                    hint="See: segue fleet status",
                )
            await asyncio.sleep(0.1)
        return register.find(run.id) or run
