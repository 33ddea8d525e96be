"""The seats of a worker: each run is driven by a process of its own, so that none can harm the others."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from segue.fleet.drive import DriveEnd, Order, drive_apart

PATIENCE = 60.0
"""Seconds for a run to end its agent when it is handed over."""


class RunSeats:
    """Starts and ends the processes that drive runs.

    They are forked from a process that has imported everything already, and start in milliseconds.
    """

    def __init__(self) -> None:
        self._context: Any = multiprocessing.get_context("forkserver" if hasattr(os, "fork") else "spawn")
        if hasattr(os, "fork"):
            self._context.set_forkserver_preload(["segue.fleet.warm"])
        self._at_work: dict[str, BaseProcess] = {}
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def runs(self) -> list[str]:
        """The runs that are being driven."""
        return sorted(self._at_work)

    async def drive(self, order: Order) -> DriveEnd | None:
        """Drive a run; None if it is being driven here already, or its process was killed on purpose.

        Cancelling this leaves the process at work.
        """
        if order.run in self._at_work:
            return None
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(target=drive_apart, args=(order, theirs), name=f"segue {order.run}")
        self._at_work[order.run] = process
        self._empty.clear()
        watch = asyncio.create_task(self._watch(order.run, process, ours, theirs))
        return await asyncio.shield(watch)

    def let_go(self) -> list[str]:
        """End the processes without a word: their agents continue under their supervisors."""
        runs = self.runs
        for process in self._at_work.values():
            if process.pid is not None:
                process.kill()
        return runs

    async def hand_over(self) -> None:
        """Ask every process to stop its run and its agent, so that others can continue."""
        for process in self._at_work.values():
            if process.pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGINT)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._empty.wait(), PATIENCE)
        self.let_go()

    async def _watch(
        self, run: str, process: BaseProcess, ours: Connection, theirs: Connection
    ) -> DriveEnd | None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        try:
            await asyncio.to_thread(process.start)
            theirs.close()
            loop.add_reader(process.sentinel, ended.set)
            try:
                await ended.wait()
            finally:
                loop.remove_reader(process.sentinel)
            process.join()
            said = ours.recv() if ours.poll() else None
        except EOFError:
            said = None
        finally:
            ours.close()
            del self._at_work[run]
            if not self._at_work:
                self._empty.set()
        if said is not None:
            return DriveEnd(*said)
        return DriveEnd(False, f"Its process ended with exit code {process.exitcode}.", killed=True)
