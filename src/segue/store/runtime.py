"""The background work of a store with open runs: writer, wake-ups, heartbeat, recovery from outages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from segue.domain.errors import StoreAway, StoreDenied, StoreError
from segue.domain.events import WaitBegan, WaitEnded
from segue.store.changes import Changes
from segue.store.claim import HEARTBEAT_SECONDS, renew
from segue.store.database import Database, Disconnected, transact
from segue.store.writer import Outage, Writer

if TYPE_CHECKING:
    from segue.store.journal import Journal

T = TypeVar("T")

PROBE_SECONDS = 0.5
"""How often to look for a database that is away."""


class StoreRuntime:
    """Runs on one event loop and ends with the last journal."""

    def __init__(
        self,
        database: Database,
        connect: Callable[[], Database],
        patience: float = 0.0,
        kept: bool = False,
    ) -> None:
        """`kept`: the connection is left open at the end."""
        self.loop = asyncio.get_running_loop()
        self.writer = Writer(database, kept)
        self.outage = Outage(database, patience)
        self.changes = Changes(database, lambda: self.outage.is_away)
        self.journals: dict[str, Journal] = {}
        """Open journals by their owner's name."""
        self.users = 0
        """How many callers are opening, using or closing a journal: the last one closes this."""
        self.slots: set[str] = set()
        """The owners of the slots that are taken."""
        self._connect = connect
        self._failure: StoreError | None = None
        self._tasks = [self.loop.create_task(self._beat())]
        if self.outage.is_buffering:
            self._tasks.append(self.loop.create_task(self._recover()))

    async def attempt(self, work: Callable[[], T | None]) -> T | None:
        """Do work that needs an answer from the database; None while it is away."""
        return await self.writer.run(lambda: self.outage.attempt(work))

    def do_later(self, work: Callable[[], None]) -> None:
        """Queue work that nobody waits for, and that need not succeed."""
        with suppress(RuntimeError):  # the writer is closed
            self.writer.submit(lambda: self.outage.attempt(work)).add_done_callback(_see)

    async def wait_until_back(self) -> None:
        """Wait until the database is back; raises when that takes too long."""
        while self.outage.is_away:
            if self._failure is not None:
                raise self._failure
            await asyncio.sleep(PROBE_SECONDS / 5)

    async def renew(self) -> None:
        """Renew all leases, and stop the journals that lost theirs."""
        database, lease_ms = self.writer.database, self.outage.lease_ms
        claims = [(journal.run.id, owner) for owner, journal in self.journals.items()]
        slots = sorted(self.slots)
        lost = await self.attempt(
            lambda: transact(database, lambda _again: renew(database, claims, slots, lease_ms))
        )
        for owner in lost or ():
            if owner in self.journals:
                self.journals[owner].lose()

    async def close(self) -> None:
        """Stop the heartbeat and the writer."""
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self.abandon()

    def abandon(self) -> None:
        """Close the writer, which is all that can be done once the event loop is gone."""
        for journal in self.journals.values():
            journal.abandon()
        self.writer.close()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            with suppress(StoreError):  # the next one may succeed; in the end the fence decides
                await self.renew()

    async def _recover(self) -> None:
        """While the database is away: look for it, replay the buffers, and finally give up."""
        announced = False
        while True:
            await asyncio.sleep(PROBE_SECONDS)
            wait, waited = self.outage.wait, self.outage.waited
            if wait is not None and not announced:
                announced = await self._tell(wait)
            if self.outage.is_away and await self.loop.run_in_executor(None, self._is_reachable):
                for owner, failure in (await self.writer.run(self._replay_all)).items():
                    self.journals[owner].stop(failure)
            if announced and not self.outage.is_away:
                announced = not await self._tell(waited)
            if self.outage.is_overdue and self._failure is None:
                self._give_up()

    async def _tell(self, event: WaitBegan | WaitEnded) -> bool:
        for journal in list(self.journals.values()):
            with suppress(StoreError):  # it is closed, or has failed
                await journal.emit(event)
        return True

    def _is_reachable(self) -> bool:
        try:
            self._connect().close()
        except StoreError as error:
            self.outage.failure = error if self.outage.is_away else None
            return False
        return True

    def _replay_all(self) -> dict[str, StoreError]:
        """Replay all buffers in one go on the writer's thread, so that no write comes in between."""
        failures: dict[str, StoreError] = {}
        for owner, journal in list(self.journals.items()):
            try:
                journal.replay()
            except Disconnected:
                return failures
            except StoreError as failure:
                failures[owner] = failure
        self.outage.end()
        return failures

    def _give_up(self) -> None:
        for journal in list(self.journals.values()):
            run, where = journal.run.id, journal.spool_path
            kind = StoreDenied if isinstance(self.outage.failure, StoreDenied) else StoreAway
            reason = f": {self.outage.failure.message}" if self.outage.failure else "."
            self._failure = kind(
                f"The database was away for too long; run {run} is parked{reason}",
                kept=f"Everything since then is buffered in {where}.",
                hint=f"When the database is back: segue resume {run}   To store it only: segue db push",
            )
            journal.stop(self._failure)


def _see(done: asyncio.Future[None]) -> None:
    """Look at the failure of work that nobody waits for, so that asyncio does not report it."""
    if not done.cancelled():
        done.exception()
