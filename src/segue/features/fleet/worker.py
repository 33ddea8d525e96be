"""A worker: takes runs out of the queue and drives them, as many at once as it has seats."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import time
import uuid
from collections.abc import Callable, Collection
from pathlib import Path

from segue import __version__
from segue.domain.errors import Locked, SegueError, StoreError
from segue.domain.events import Recorded, RunEnded
from segue.domain.run import Run, RunState
from segue.features.fleet.drive import OVER, DriveEnd, Order, clones_in, identify_machine, place_of, places_in
from segue.features.fleet.options import worker_settings
from segue.features.fleet.placement import Equipment
from segue.features.fleet.queue import NEWS, enqueue, make_queue
from segue.features.fleet.register import Register, WorkerEntry, entry_of
from segue.features.fleet.schema import address_of
from segue.features.fleet.seats import RunSeats, hand_over_left
from segue.runtime.app import App
from segue.runtime.registry import names
from segue.runtime.wiring import make_run_notifier
from segue.store.database import Watch
from segue.system import identity
from segue.system.lock import RepoLock
from segue.system.process.folder import end_orphans

logger = logging.getLogger(__name__)

BEAT = 10.0
"""Seconds between two signs of life."""
_POLL = 10.0
"""Seconds between two looks at the queue, for jobs that no notification announced."""
_NEWS_PAUSE = 0.5
"""Seconds between two looks because something was submitted: in a large fleet much is."""
_NEVER = 3600.0
"""Seconds between two looks for jobs to abort; runs are stopped by other means."""
_AGAIN = 5.0
"""Seconds before a run is tried again that could not be driven."""
_TIDY = 300.0
"""Seconds between two looks for what is not needed any more."""
_PAUSES = (0.5, 1.0, 2.0, 5.0, 10.0)
Say = Callable[[str], None]


class Worker:
    """One `segue worker`."""

    def __init__(
        self, app: App, equipment: Equipment, seats: int, say: Say, only: Collection[str] = ()
    ) -> None:
        """`only` are tags: runs that need none of them are left to others. Empty: all that fit are taken."""
        self._app, self._equipment, self._number = app, equipment, seats
        self._say, self._only = say, only
        self._address = address_of(app)
        self._seats = RunSeats()
        self._own = f"worker-{uuid.uuid4().hex[:12]}"
        """A queue in which nothing ever waits, to be woken by."""
        self._queues: list[str] = [self._own]
        self._news = asyncio.Event()
        self._queue = make_queue(self._address, self._drive)
        self._machine = identify_machine(app.state_dir)
        self.id = f"{self._machine}/{os.getpid()}-{uuid.uuid4().hex[:6]}"
        self._register = Register(self._address)
        self._ending = asyncio.Event()
        self._hand_over = False
        self._others: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Work until asked to end, whatever happens to the database meanwhile."""
        loop = asyncio.get_running_loop()
        logging.getLogger("procrastinate").propagate = False  # what people need to know is said here
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):
                loop.add_signal_handler(number, self._end, number)
        await self._begin()
        try:
            await self._keep_serving()
        finally:
            self._seats.close_idle()

    async def _keep_serving(self) -> None:
        others = [asyncio.create_task(self._beat()), asyncio.create_task(self._keep_tidy())]
        failures = 0
        while not self._ending.is_set():
            started = time.monotonic()
            try:
                await self._serve()
            except Exception as error:  # whatever a driver or a pool makes of a broken connection
                logger.info("the database is away", exc_info=True)  # people are told below
                self._say(f"The database is away: {_first_line(error)}")
            failures = 0 if time.monotonic() - started > _PAUSES[-1] else failures + 1
            if not self._ending.is_set():
                await _either(self._ending, _PAUSES[min(failures, len(_PAUSES)) - 1])
        for other in others:
            other.cancel()
        await self._leave()

    def _end(self, number: int) -> None:
        logger.info("asked to end by signal %d", number)
        self._hand_over = self._hand_over or number == signal.SIGINT or self._ending.is_set()
        self._ending.set()

    async def _begin(self) -> None:
        """Say that there is one worker more, and continue what an earlier one of this machine has left."""
        shown = self._equipment.shown
        self._say(f"Worker {self.id}: {self._number} seats; {', '.join(shown)}.")
        entry = WorkerEntry(
            self.id,
            identity.host(),
            os.getpid(),
            __version__,
            " ".join(shown),
            " ".join(self._equipment.repos),
            self._number,
        )
        await asyncio.to_thread(self._register.add_worker, entry)

    async def _serve(self) -> None:
        """Take jobs until asked to end, or until the database goes away."""
        async with self._queue.open_async():
            await self._choose_queues()
            for run in await asyncio.to_thread(self._register.left_by, self._machine):
                logger.info("run %s was left by an earlier worker of this machine", run)
                self._keep(asyncio.create_task(self._drive(run)))
            choosing = asyncio.create_task(self._keep_choosing())
            work = asyncio.create_task(
                self._queue.run_worker_async(
                    queues=self._queues,
                    name=self.id,
                    concurrency=self._number,
                    fetch_job_polling_interval=_POLL,
                    abort_job_polling_interval=_NEVER,
                    shutdown_graceful_timeout=0.1,
                    update_heartbeat_interval=BEAT,
                    stalled_worker_timeout=3 * BEAT,
                    delete_jobs="always",
                    install_signal_handlers=False,
                )
            )
            ending = asyncio.create_task(self._ending.wait())
            await asyncio.wait({work, ending, choosing}, return_when=asyncio.FIRST_COMPLETED)
            for task in (ending, choosing, work):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def _drive(self, run: str) -> None:
        """Drive a run that was in the queue, and see to what follows."""
        found = await asyncio.to_thread(self._register.find_candidate, run, self._machine)
        if found is None or found.run.state in OVER:
            logger.debug("run %s needs no worker any more", run)
            return
        if self._ending.is_set() or found.held:
            logger.info("run %s goes back to the queue; it is held for %.1f s", run, found.held)
            await enqueue(self._queue, [entry_of(found.run, time.time() + found.held)])
            return
        if found.failed and await self._pass_on(found.run):
            logger.info("run %s failed here before: it is left to another machine", run)
            return
        logger.info("run %s is claimed", run)
        worker, place = worker_settings(self._app), self._app.state_dir.absolute()
        order = Order(run, self._address, place, worker)
        end = await self._seats.drive(order)
        if end is not None and end.killed and not self._ending.is_set():
            logger.info("the process that drove run %s was killed; another one adopts its agent", run)
            end = await self._seats.drive(order)  # its agent may still be at work here
        logger.info("run %s is released: %s", run, end)
        if end is not None and not end.clean and not self._ending.is_set():
            await self._conclude(run, end)

    async def _conclude(self, run: str, end: DriveEnd) -> None:
        now = await asyncio.to_thread(self._register.find, run)
        if now is None or now.state in OVER:
            return
        if not end.done:
            self._say(f"Run {run} could not be driven here: {end.said}")
            if await asyncio.to_thread(self._register.note_failure, run, self._machine, end.said):
                await asyncio.to_thread(self._ask_people, run, end.said)
                return
        if now.state is RunState.PARKED and now.wake:
            logger.info("run %s waits until %d", run, now.wake)
            await enqueue(self._queue, [entry_of(now, now.wake / 1000)])
        elif not end.done and not await self._pass_on(now):
            await enqueue(self._queue, [entry_of(now, time.time() + _AGAIN)])

    def _ask_people(self, run: str, said: str) -> None:
        """Notify people that no machine could drive a run."""
        notifier = make_run_notifier(self._app, None, self._say)
        if notifier is not None:
            with notifier as observe:
                observe(Recorded(run, 0, 0, None, RunEnded(RunState.NEEDS_HUMAN, said)))

    async def _pass_on(self, run: Run) -> bool:
        """Leave a run that could not be driven here to another machine; False if no other one could.

        This worker looks away from the run's queue for a while, or it would be the quickest again.
        """
        entry = entry_of(run)
        if not await asyncio.to_thread(self._register.has_others, self._machine, entry.key, names("agents")):
            return False
        with contextlib.suppress(ValueError):
            self._queues.remove(entry.key.name)
        await enqueue(self._queue, [entry])
        return True

    async def _keep_choosing(self) -> None:
        """Follow which queues there are; enqueue runs that should be in one and are not."""
        watch = self._listen()
        try:
            swept = time.monotonic()
            await self._sweep()
            while True:
                heard = await _either(self._news, BEAT)
                self._news.clear()
                await self._choose_queues()
                if heard:
                    await asyncio.to_thread(self._register.notify_queue, self._own)
                    await asyncio.sleep(_NEWS_PAUSE)
                if time.monotonic() - swept >= BEAT:
                    swept = time.monotonic()
                    await self._sweep()
                if watch.is_lost:
                    watch = self._listen()
        finally:
            watch.stop()

    def _listen(self) -> Watch:
        """Listen for runs in queues that did not exist when this worker started."""

        def hear(topic: str) -> None:
            if topic in ("", NEWS):
                self._news.set()

        return self._register.watch(asyncio.get_running_loop(), hear)

    async def _sweep(self) -> None:
        entries = [entry_of(run) for run in await asyncio.to_thread(self._register.sweep)]
        if entries:
            logger.info("runs that nobody drives are enqueued again: %s", [one.run for one in entries])
            await enqueue(self._queue, entries)

    async def _choose_queues(self) -> None:
        waiting = await asyncio.to_thread(self._register.waiting)
        found = [key.name for key in waiting if self._equipment.can_take(key, self._only)]
        logger.debug("%d queues have runs; this worker can take those of %d", len(waiting), len(found))
        self._queues[:] = [self._own, *found]

    async def _keep_tidy(self) -> None:
        while True:
            cache = worker_settings(self._app).cache_gb * 1e9
            with contextlib.suppress(SegueError, OSError):  # the next time will do
                await tidy(self._app.state_dir, self._register, self._machine, self._seats.runs, cache)
            await asyncio.sleep(_TIDY)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT)
            runs = self._seats.runs
            logger.debug("heartbeat: at work on %s", runs)
            with contextlib.suppress(StoreError):  # what is wrong is said where jobs are taken
                await asyncio.to_thread(self._register.heartbeat, self.id, runs)

    async def _leave(self) -> None:
        """End: runs are kept for the worker that starts next on this machine, or go back to the queue."""
        hold = worker_settings(self._app).hold
        runs, left = self._seats.runs, list[str]()
        if self._hand_over or not hold:
            with contextlib.suppress(StoreError):
                left = await asyncio.to_thread(self._register.driven_without_worker, self._machine, runs)
            if runs or left:
                self._say(f"Handing over {len(runs) + len(left)} runs; their agents are ended.")
            await asyncio.gather(self._seats.hand_over(), hand_over_left(left))
        elif runs:
            self._say(
                f"Leaving {len(runs)} agents at work; their runs are kept for this machine for {hold:g} s."
            )
            await asyncio.to_thread(self._register.hold, runs, self._machine, hold)
            self._seats.kill_all()
        with contextlib.suppress(StoreError):
            await asyncio.to_thread(self._register.end_worker, self.id)
        self._say("The worker has ended.")

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._others.add(task)
        task.add_done_callback(self._others.discard)


def _first_line(error: BaseException) -> str:
    """Return what is wrong in one line, in the words of who noticed it first."""
    while error.__cause__ is not None:
        error = error.__cause__
    return (str(error) or type(error).__name__).splitlines()[0]


async def _either(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event, but not longer than this; return whether it has come."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()


async def tidy(
    state_dir: Path, register: Register, machine: str, at_work: Collection[str], cache: float
) -> None:
    """Remove what is not needed any more; `cache` is how many bytes mirrors may take."""
    kept = {place.name for place in places_in(state_dir)} - set(at_work)
    needed = await asyncio.to_thread(register.needed_at, machine, kept)
    for run in sorted(kept - needed):
        logger.info("what this machine keeps of run %s is removed", run)
        await _remove(state_dir, run)
    await clones_in(state_dir).trim(int(cache))
    await asyncio.to_thread(register.forget_done)


async def _remove(state_dir: Path, run: str) -> None:
    """Remove a run, and end the agents that it left when another machine took it over."""
    place = place_of(state_dir, run)
    try:
        lock = RepoLock.take(place, run)
    except Locked:  # it has just come back
        return
    try:
        await end_orphans(place / "runs" / run)
        clones_in(state_dir).forget(place / "repo")
        await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)
    finally:
        lock.release()
