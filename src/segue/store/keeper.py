"""What a store keeps going while runs are open: the writer, the wake-ups and the heartbeat."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from segue.domain.errors import StoreError
from segue.store.changes import Changes
from segue.store.claim import HEARTBEAT_SECONDS, renew
from segue.store.database import Database, transact
from segue.store.writer import Writer

if TYPE_CHECKING:
    from segue.store.journal import SqlJournal


class Keeper:
    """Belongs to one event loop; ends with the last journal."""

    def __init__(self, database: Database) -> None:
        self.loop = asyncio.get_running_loop()
        self.writer = Writer(database)
        self.changes = Changes(database)
        self.journals: dict[str, SqlJournal] = {}
        """Open journals by their owner's name."""
        self.users = 0
        """How many are opening, using or closing a journal: the last one ends it all."""
        self.slots: set[str] = set()
        """The names under which slots are held."""
        self._heart = self.loop.create_task(self._beat())

    async def renew(self) -> None:
        """Renew all leases, and stop the journals that lost theirs."""
        database = self.writer.database
        claims = [(journal.run.id, owner) for owner, journal in self.journals.items()]
        slots = sorted(self.slots)
        lost = await self.writer.run(
            lambda: transact(database, lambda _again: renew(database, claims, slots))
        )
        for owner in lost:
            if owner in self.journals:
                self.journals[owner].lose()

    async def close(self) -> None:
        """Stop the heartbeat and the writer."""
        self._heart.cancel()
        with suppress(asyncio.CancelledError):
            await self._heart
        self.abandon()

    def abandon(self) -> None:
        """Close the writer; all that is left to do when the event loop is gone."""
        for journal in self.journals.values():
            journal.abandon()
        self.writer.close()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            with suppress(StoreError):  # the next beat may get through; the fence decides in the end
                await self.renew()
