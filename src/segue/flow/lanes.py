"""Lanes: where several tasks are worked on at once, and how their work comes together on one branch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from segue.domain.footprint import Footprint
from segue.domain.waits import Claims
from segue.domain.workspace import Merged, Snapshot

if TYPE_CHECKING:
    from segue.flow.context import Checking, RunContext


class LanePlace(Protocol):
    """Where one lane works: a work tree of its own, or a branch on the remote for cloud agents."""

    async def start(self, commit: str) -> Snapshot:
        """Begin at a commit; what is still there of another attempt is kept elsewhere."""

    async def lay(self, tree: str) -> None:
        """Put the files of a tree there, uncommitted."""

    async def keep(self, name: str) -> None:
        """Keep git from deleting the commit it is at, which no branch contains."""


class RunBranch(Protocol):
    """The branch on which the work of all lanes comes together."""

    @property
    def branch(self) -> str:
        """Its name."""

    async def head(self) -> str:
        """Return the commit it is at."""

    async def contains(self, commit: str) -> bool:
        """Return whether it has the commit already."""

    async def merge(self, ours: str, theirs: str) -> Merged:
        """Return what two commits make together; nothing is changed."""

    async def join(self, ours: str, theirs: str, tree: str, message: str) -> str:
        """Return a commit with two parents."""

    async def advance(self, old: str, new: str) -> bool:
        """Move the branch from one commit to another; False if it is somewhere else by now."""


class Seats:
    """How many tasks are worked on at once, and in which order finished ones are merged.

    A later task waits with its merge for earlier ones at work, so that it is the later one that has to fit;
    not for those that name their files, if it has changed none of them.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self._free = asyncio.Semaphore(number)
        self._line: dict[str, Seat] = {}
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

    async def _sit(self) -> None:
        await self._free.acquire()

    def _stand(self) -> None:
        self._free.release()
        self.freed.set()

    def _line_up(self, seat: Seat) -> None:
        self._line[seat.task] = seat

    def _step_aside(self, seat: Seat) -> None:
        if self._line.pop(seat.task, None) is not None:
            self._left.set()
            self._left = asyncio.Event()

    async def _wait(self, seat: Seat, changed: Sequence[str]) -> None:
        while any(other.place < seat.place and other.holds_up(changed) for other in self._line.values()):
            seat.give()
            await self._left.wait()


class Seat:
    """What a task at work holds. While it waits for a usage limit or for its turn, others may work."""

    def __init__(self, seats: Seats, task: str, place: int, footprint: Footprint) -> None:
        self.task, self.place = task, place
        self._seats, self._footprint = seats, footprint
        self._held = False

    async def take(self) -> None:
        """Wait until the task may be worked on."""
        if not self._held:
            await self._seats._sit()
            self._held = True
        self._seats._line_up(self)

    def give(self) -> None:
        """Let others work in its stead."""
        if self._held:
            self._held = False
            self._seats._stand()

    def leave(self) -> None:
        """Let others work, and hold nobody up any more."""
        self.give()
        self._seats._step_aside(self)

    @asynccontextmanager
    async def rest(self) -> AsyncIterator[None]:
        """Give the seat away for as long as nothing can be done."""
        self.leave()
        yield
        await self.take()

    @asynccontextmanager
    async def turn(self, changed: Sequence[str]) -> AsyncIterator[None]:
        """Wait for the turn of a task that has changed these files, then hold the branch."""
        await self._seats._wait(self, changed)
        async with self._seats.merging:
            yield

    def holds_up(self, changed: Sequence[str]) -> bool:
        """Return whether a later task has to wait for this one that has changed these files."""
        if not (changed and self._footprint.changes):
            return True
        claims = Claims()
        claims.claim(self.task, self._footprint)
        return bool(claims.collide(Footprint(touched=tuple(changed))))


class Lane(Struct, frozen=True):
    """One of the lanes of a run, while a task is worked on in it."""

    number: int
    tree: LanePlace
    branch: RunBranch
    seats: Seats
    seat: Seat
    checking: Checking
    """Checks what several tasks have made together."""


class Lanes(Protocol):
    """The lanes of a run."""

    @property
    def seats(self) -> Seats:
        """What limits how many tasks are worked on at once."""

    async def open(self, context: RunContext, number: int, seat: Seat) -> RunContext:
        """Return the context in which a lane works; its work tree is made if need be."""
