"""The background work of a store with open runs: one thread that writes, and heartbeats."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from msgspec import Struct

from segue.domain.errors import LeaseLost, StoreAway, StoreDenied, StoreError
from segue.domain.events import Event, WaitBegan, WaitEnded
from segue.store.claim import HEARTBEAT_SECONDS, LEASE_MS, renew
from segue.store.database import Database, Disconnected, Outage, transact

T = TypeVar("T")

POLL_SECONDS = 0.5
"""How often signals and slots are asked for."""
_SERVICE = "the database"


class Claim(Struct, frozen=True, eq=False):
    """A run that this process drives."""

    run_id: str
    owner: str
    emit: Callable[[Event], Awaitable[object]]
    stop: Callable[[StoreError], None]
    """Ends the work on the run, which writes nothing any more."""


class StoreSession:
    """The connection that writes, its thread and its claims. It belongs to one event loop."""

    def __init__(self, database: Database, patience: float = 0.0, kept: bool = False) -> None:
        """`kept`: the connection is left open at the end."""
        self.loop = asyncio.get_running_loop()
        self.database = database
        # A claim lasts longer than this process waits for the database and needs to notice that it is away.
        self.lease_ms = 2 * LEASE_MS + int(patience * 1000) if patience else LEASE_MS
        self.claims: dict[str, Claim] = {}
        """Open runs by the owner's name."""
        self.slots: set[str] = set()
        """The owners of the slots that are taken."""
        self.users = 0
        """How many callers are opening, using or closing a journal: the last one closes this."""
        self.is_away = False
        self._kept = kept
        self.failure: StoreError | None = None
        """Why nothing is written any more."""
        self._outage, database.outage = database.outage, _SessionOutage(self, patience)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="segue-store")
        self._beating = self.loop.create_task(self._beat())

    def submit(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Queue work. Once queued it is done, even if the caller stops waiting."""
        return asyncio.wrap_future(self._thread.submit(self._do, work))

    async def run(self, work: Callable[[], T]) -> T:
        """Queue work and wait for it; cancelling does not undo it."""
        return await asyncio.shield(self.submit(work))

    def do_later(self, work: Callable[[], object]) -> None:
        """Queue work that nobody waits for, and that need not succeed."""
        with suppress(RuntimeError):  # the thread has ended
            self.submit(work).add_done_callback(lambda done: done.cancelled() or done.exception())

    async def until(self, ask: Callable[[], T | None], seconds: float | None = None) -> T | None:
        """Ask every half second until there is an answer; None when the time is up."""
        deadline = None if seconds is None else self.loop.time() + seconds
        while (answer := await self.run(ask)) is None:
            left = POLL_SECONDS if deadline is None else min(POLL_SECONDS, deadline - self.loop.time())
            if left <= 0:
                return None
            await asyncio.sleep(left)
        return answer

    async def renew(self) -> None:
        """Renew all leases, and stop the runs that lost theirs."""
        claims, slots = [(claim.run_id, claim.owner) for claim in self.claims.values()], sorted(self.slots)
        lost = await self.run(
            lambda: transact(self.database, lambda _again: renew(self.database, claims, slots, self.lease_ms))
        )
        for claim in [self.claims[owner] for owner in lost if owner in self.claims]:
            claim.stop(LeaseLost(f"Run {claim.run_id} is driven by another process now."))

    def give_up(self) -> None:
        """Stop waiting for a database that is away."""
        self.database.outage.given_up.set()

    async def close(self) -> None:
        """Stop the heartbeat and the thread."""
        self._beating.cancel()
        with suppress(asyncio.CancelledError):
            await self._beating
        self.end()

    def end(self) -> None:
        """Finish the queued work, then close the connection."""
        if self.is_away:
            self.give_up()
        self._thread.shutdown()
        self.failure = self.failure or StoreError("The store is closed.")
        self.database.outage = self._outage
        if not self._kept:
            self.database.close()

    def _do(self, work: Callable[[], T]) -> T:
        """Work on the thread; a database that is away for too long, or denies access, ends all runs."""
        if self.failure is not None:
            raise self.failure
        try:
            return work()
        except (Disconnected, StoreDenied) as error:
            kind = StoreDenied if isinstance(error, StoreDenied) else StoreAway
            runs = ", ".join(claim.run_id for claim in self.claims.values())
            self.failure = kind(
                f"The database was away for too long; run {runs} is parked: {error.message}",
                kept="Everything up to the last step that was stored; agents at work keep what they print.",
                hint=f"When the database is back: segue resume {runs}",
            )
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._stop_all, self.failure)
            raise self.failure from error

    def _stop_all(self, failure: StoreError) -> None:
        for claim in list(self.claims.values()):
            claim.stop(failure)

    def tell(self, event: Event) -> None:
        """Emit an event in every run."""

        def emit() -> None:
            for claim in list(self.claims.values()):
                self._told = self.loop.create_task(_emit(claim, event))

        with suppress(RuntimeError):  # the event loop has ended
            self.loop.call_soon_threadsafe(emit)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            with suppress(StoreError):  # the next one may succeed; in the end the fence decides
                await self.renew()


class _SessionOutage(Outage):
    """Shows in every run that its database is away, and that it is back."""

    def __init__(self, session: StoreSession, seconds: float) -> None:
        super().__init__(seconds)
        self._session = session

    def began(self, error: Disconnected) -> None:
        self._session.is_away = True
        self._session.tell(WaitBegan(_SERVICE, error.message, time.time() + self.seconds))

    def ended(self, seconds: float) -> None:
        self._session.is_away = False
        self._session.tell(WaitEnded(_SERVICE, round(seconds, 3)))


async def _emit(claim: Claim, event: Event) -> None:
    with suppress(StoreError):  # the run has failed meanwhile
        await claim.emit(event)
