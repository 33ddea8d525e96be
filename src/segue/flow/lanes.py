"""How many tasks are worked on at once, and in which order their work is merged onto one branch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from segue.domain.footprint import Footprint
from segue.domain.waits import Claims


class Seats:
    """A semaphore for the tasks that are worked on at once, and the order in which finished ones are merged.

    A later task waits with its merge for earlier ones at work, so that it is the later one that has to fit;
    not for those that name their files, if it has changed none of them.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self._free = asyncio.Semaphore(number)
        self._at_work: dict[str, Seat] = {}
        self._left = asyncio.Event()
        self.freed = asyncio.Event()
        """Set when a seat is free again."""
        self.merging = asyncio.Lock()
        """Held while the branch is moved: one task at a time."""
        self.head = ""
        """What the branch is at, as far as this run has moved it."""

    @property
    def is_free(self) -> bool:
        """Whether another task may begin now."""
        return not self._free.locked()

    async def take(self, task: str, place: int, footprint: Footprint) -> Seat:
        """Wait for a seat; `place` is the task's place in the plan."""
        seat = Seat(self, task, place, footprint)
        await seat.take()
        return seat

    async def acquire(self, seat: Seat) -> None:
        """Wait until another task may be worked on."""
        if not seat.is_held:
            await self._free.acquire()
            seat.is_held = True
        self._at_work[seat.task] = seat

    def release(self, seat: Seat) -> None:
        """Let another task be worked on in its stead."""
        if seat.is_held:
            seat.is_held = False
            self._free.release()
            self.freed.set()

    def leave(self, seat: Seat) -> None:
        """Let another task be worked on, and hold nobody's merge up any more."""
        self.release(seat)
        if self._at_work.pop(seat.task, None) is not None:
            self._left.set()
            self._left = asyncio.Event()

    async def wait_for_earlier(self, seat: Seat, changed: Sequence[str]) -> None:
        """Wait, without the semaphore, for tasks that must be merged before one that changed these files."""
        while any(other.place < seat.place and other.holds_up(changed) for other in self._at_work.values()):
            self.release(seat)
            await self._left.wait()


class Seat:
    """A task's hold on the semaphore. While it waits for a usage limit or for its turn, others may work."""

    def __init__(self, seats: Seats, task: str, place: int, footprint: Footprint) -> None:
        self.task, self.place = task, place
        self.is_held = False
        self._seats, self._footprint = seats, footprint

    async def take(self) -> None:
        """Wait until the task may be worked on."""
        await self._seats.acquire(self)

    def leave(self) -> None:
        """Let others work, and hold nobody up any more."""
        self._seats.leave(self)

    @asynccontextmanager
    async def rest(self) -> AsyncIterator[None]:
        """Give the seat away for as long as nothing can be done."""
        self.leave()
        yield
        await self.take()

    @asynccontextmanager
    async def turn(self, changed: Sequence[str]) -> AsyncIterator[None]:
        """Wait for the turn of a task that has changed these files, then hold the branch."""
        await self._seats.wait_for_earlier(self, changed)
        async with self._seats.merging:
            yield

    def holds_up(self, changed: Sequence[str]) -> bool:
        """Return whether a later task has to wait for this one that has changed these files."""
        if not (changed and self._footprint.changes):
            return True
        claims = Claims()
        claims.claim(self.task, self._footprint)
        return bool(claims.collide(Footprint(touched=tuple(changed))))
