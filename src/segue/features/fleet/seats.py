"""The seats of a worker: each run is driven in a process that drives nothing else meanwhile, for safety."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Collection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from segue.features.fleet.drive import DriveEnd, Order, drive_orders
from segue.system import identity

logger = logging.getLogger(__name__)

PATIENCE = 60.0
"""Seconds for a run to end its agent when it is handed over."""
_LOOK = 0.1
_REST = 5.0
"""Seconds for which a process waits for its next run, with its connections to the database."""


class _Seat:
    """A process that drives one run after another."""

    def __init__(self, context: Any) -> None:
        self.line: Connection
        self.line, self._theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=drive_orders, args=(self._theirs,))
        self.rest: asyncio.TimerHandle | None = None
        self.is_driving = False
        """Whether it has an order: it ends that on SIGINT."""

    def start(self) -> None:
        """Start the process."""
        self.process.start()
        self._theirs.close()

    async def drive(self, order: Order) -> tuple[DriveEnd, bool] | None:
        """Drive a run, and say whether the process can drive the next one; None: it has ended."""
        try:
            self.line.send(order)
            self.is_driving = True
            await _until_readable(self.line.fileno())
            answer: tuple[DriveEnd, bool] = self.line.recv()
        except (EOFError, ConnectionError):
            return None
        finally:
            self.is_driving = False
        return answer

    def kill(self) -> None:
        """End the process, whatever it does."""
        if self.process.pid is not None:
            self.process.kill()

    async def end(self) -> int | None:
        """Let the process end, once it has nothing to do; return its exit code."""
        self.line.close()
        await _until_readable(self.process.sentinel)
        self.process.join()
        return self.process.exitcode


class RunSeats:
    """Starts and ends the processes that drive runs.

    They are forked from a process that has imported everything already, and start in milliseconds. One that
    has driven a run without trouble gets the next one.
    """

    def __init__(self) -> None:
        self._context: Any = multiprocessing.get_context("forkserver" if hasattr(os, "fork") else "spawn")
        if hasattr(os, "fork"):
            self._context.set_forkserver_preload(["segue.features.fleet.warm"])
        self._at_work: dict[str, _Seat] = {}
        self._free: list[_Seat] = []
        self._is_closing = False
        self._ending: set[asyncio.Task[int | None]] = set()
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def runs(self) -> list[str]:
        """The runs that are being driven."""
        return sorted(self._at_work)

    async def drive(self, order: Order) -> DriveEnd | None:
        """Drive a run; None if it is being driven here already.

        Cancelling this leaves the process at work.
        """
        if order.run in self._at_work:
            return None
        seat = self._find_free() or _Seat(self._context)
        self._at_work[order.run] = seat
        self._empty.clear()
        return await asyncio.shield(asyncio.create_task(self._watch(order, seat)))

    def kill_all(self) -> list[str]:
        """End the processes without a word: their agents continue under their supervisors."""
        runs = self.runs
        for seat in self._at_work.values():
            seat.kill()
        self.close_idle()
        return runs

    def close_idle(self) -> None:
        """Let the processes end that have nothing to do; the worker's own end waits for them."""
        for seat in list(self._free):
            self._close(seat)

    async def hand_over(self) -> None:
        """Ask every process to stop its run and its agent, so that others can continue.

        One that is still being made gets no run.
        """
        self._is_closing = True
        for seat in self._at_work.values():
            if seat.process.pid is not None and seat.is_driving:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(seat.process.pid, signal.SIGINT)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._empty.wait(), PATIENCE)
        self.kill_all()

    async def _watch(self, order: Order, seat: _Seat) -> DriveEnd:
        try:
            if seat.process.pid is None:
                await asyncio.to_thread(seat.start)
            logger.debug("process %s drives run %s", seat.process.pid, order.run)
            answer = None if self._is_closing else await seat.drive(order)
            if answer is None or not answer[1]:
                code = await seat.end()
                logger.debug("process %s has ended with exit code %s", seat.process.pid, code)
        finally:
            del self._at_work[order.run]
            if not self._at_work:
                self._empty.set()
        if answer is None:
            return DriveEnd(False, f"Its process ended with exit code {code}.", killed=True)
        if answer[1]:
            self._free.append(seat)
            seat.rest = asyncio.get_running_loop().call_later(_REST, self._close, seat)
        return answer[0]

    def _find_free(self) -> _Seat | None:
        """Return a process that waits for its next run; one that was killed meanwhile is none."""
        while self._free:
            seat = self._free.pop()
            if seat.rest is not None:
                seat.rest.cancel()
            if seat.process.is_alive():
                return seat
            seat.line.close()
        return None

    def _close(self, seat: _Seat) -> None:
        self._free.remove(seat)
        seat.line.close()
        task = asyncio.create_task(seat.end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


async def hand_over_left(owners: Collection[str]) -> None:
    """Ask processes to stop their runs and agents whose worker was killed, and wait for that."""
    end = time.monotonic() + PATIENCE
    _signal(owners, signal.SIGINT)
    while not all(map(identity.is_dead, owners)) and time.monotonic() < end:  # noqa: ASYNC110
        await asyncio.sleep(_LOOK)
    if hasattr(signal, "SIGKILL"):
        _signal(owners, signal.SIGKILL)


def _signal(owners: Collection[str], number: signal.Signals) -> None:
    for owner in owners:
        if not identity.is_dead(owner):
            with contextlib.suppress(ProcessLookupError):
                os.kill(identity.pid_of(owner), number)


async def _until_readable(descriptor: int) -> None:
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
