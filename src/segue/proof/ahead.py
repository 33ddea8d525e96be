"""Runs that begin before it is sure that somebody needs them: those of a short suite all begin at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from msgspec import Struct, field

from segue.proof.compose import Composed
from segue.proof.disguise import Disguise
from segue.proof.execute import Sandbox
from segue.proof.runners import WHOLE, Purpose, Runner
from segue.proof.runs import Observed

_First = TypeVar("_First")
_Second = TypeVar("_Second")


class RunOrder(Struct, frozen=True):
    """All that the result of a run depends on."""

    place: Sandbox
    argv: tuple[str, ...]
    composed: Composed
    armed: tuple[Runner, ...]
    purpose: Purpose = WHOLE
    disguise: Disguise = Disguise.WATCHED

    async def run(self) -> Observed:
        """Run the command."""
        return await self.place.run(self.argv, self.composed, self.armed, self.disguise, self.purpose)


class RunsAhead(Struct):
    """What was begun. Each result is used once: a repetition is another run."""

    _begun: list[tuple[RunOrder, asyncio.Task[Observed]]] = field(default_factory=list)

    def begin(self, order: RunOrder) -> None:
        """Begin a run."""
        self._begun.append((order, asyncio.ensure_future(order.run())))

    async def run(self, order: RunOrder) -> Observed:
        """Return how a run ends; it begins now, unless it has begun already."""
        for one in self._begun:
            if one[0] == order:
                self._begun.remove(one)
                return await one[1]
        return await order.run()

    async def end(self) -> None:
        """End what nobody has asked for; nothing of it is at work afterwards."""
        tasks = [task for _, task in self._begun]
        self._begun.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def together(
    first: Coroutine[Any, Any, _First], second: Coroutine[Any, Any, _Second]
) -> tuple[_First, _Second]:
    """Do both at once; when one fails, or when they are cancelled, neither is still at work afterwards."""
    tasks = asyncio.ensure_future(first), asyncio.ensure_future(second)
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            if not task.cancelling():  # twice would keep it from removing what it has written
                task.cancel()
        await asyncio.wait(tasks)
