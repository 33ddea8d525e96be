"""Starts the run that a job asks for, or finds the one that an earlier try has started. Never two."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace

from segue.agents.cursor_cloud.api import CloudApi, Order, Place
from segue.agents.cursor_cloud.errors import CloudError
from segue.domain.repository import same_repository

_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}", re.IGNORECASE)
_LOOKS = (0.0, 1.0, 3.0)
"""How long is waited, in pauses of the policy, before each look for a launch that was not answered."""

_SENDS = 4


@dataclass(frozen=True, slots=True)
class Begun:
    """The run that does the job; `adopted` if an earlier try had started it."""

    place: Place
    adopted: bool


@dataclass(frozen=True, slots=True)
class Beginning:
    """What starting a run takes."""

    api: CloudApi
    order: Order
    deadline: float
    pause: float
    """Seconds between looks at something that should change soon."""
    poll: float
    """Seconds between looks at an agent that is busy."""

    async def begin(self, session: str | None) -> Begun:
        """A new agent, or another run of the session's agent."""
        if session is None:
            return await self._launched(self.order)
        last = Place.parse(session)
        if not self.api.owns(last):
            return await self._launched(await self._successor(last))
        for left in reversed(range(_SENDS)):
            try:
                return await self._followed(last)
            except CloudError as error:
                if error.gone:
                    return await self._launched(await self._successor(last))
                if not error.unsure or not left:
                    raise
            # It may have been sent: the next look at the agent's newest run tells.
            await asyncio.sleep(self.pause)
        raise AssertionError("the last try returns or raises")

    async def look(self, session: str | None, deadline: float) -> Place | None:
        """The run that a try may have started whose answer nobody waited for."""
        if session is None or not self.api.owns(last := Place.parse(session)):
            return await self.api.find(self.order.token, deadline)
        newest = await self.api.latest(last.agent, deadline)
        return newest if newest.run != last.run else None

    async def _launched(self, order: Order) -> Begun:
        if not self.api.mints_ids and (found := await self.api.find(order.token, self.deadline)):
            return Begun(found, adopted=True)
        try:
            return Begun(await self.api.launch(order, self.deadline), adopted=False)
        except CloudError as error:
            if not error.unsure:
                raise
            if found := await self._unanswered(order.token):
                return Begun(found, adopted=True)
            if error.code == "agent_id_conflict":
                raise CloudError("agent_not_found", "the agent was deleted", status=404) from None
            raise

    async def _unanswered(self, token: str) -> Place | None:
        """The agent that was launched although nobody said so; it may show up a little later."""
        for pause in _LOOKS:
            await asyncio.sleep(min(pause * self.pause, max(0.0, self.deadline - _now())))
            if (found := await self.api.find(token, self.deadline)) is not None:
                return found
        return None

    async def _followed(self, last: Place) -> Begun:
        """The run after the session's last one: the one that is there already, or else a new one."""
        while True:
            newest = await self.api.latest(last.agent, self.deadline)
            if newest.run != last.run:
                return Begun(newest, adopted=True)
            try:
                return Begun(await self.api.follow_up(newest, self.order, self.deadline), adopted=False)
            except CloudError as error:
                if error.code != "agent_busy" or _now() + self.poll > self.deadline:
                    raise
            await asyncio.sleep(self.poll)

    async def _successor(self, last: Place) -> Order:
        """The order for a new agent that goes on where one that is archived or gone has stopped."""
        branch = await self._last_branch(last) or self.order.ref
        on_branch = bool(branch) and not _SHA.fullmatch(branch)
        return replace(self.order, ref=branch, on_ref=on_branch)

    async def _last_branch(self, last: Place) -> str:
        """The only branch that the agent has pushed, if it can still be asked."""
        try:
            view = await self.api.get(last, self.deadline)
        except CloudError:
            return ""
        ours = [
            b.name for b in view.branches if b.name and same_repository(b.repository, self.order.repository)
        ]
        return ours[0] if len(ours) == 1 else ""


def _now() -> float:
    return asyncio.get_running_loop().time()
