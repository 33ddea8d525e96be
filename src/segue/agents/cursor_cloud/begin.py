"""Start the run that a job asks for, or find the one that an earlier attempt has started. Never two."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace

from segue.agents.cursor_cloud.api import CloudApi, LaunchRequest, RunRef
from segue.agents.cursor_cloud.errors import CloudError
from segue.domain.repository import same_repository

_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}", re.IGNORECASE)
_SEARCHES = (0.0, 1.0, 3.0)
"""How many pauses to wait before each search for a launch that was not answered."""

_SENDS = 4


@dataclass(frozen=True, slots=True)
class StartedRun:
    """The run that does the job; `adopted` if an earlier attempt had started it."""

    ref: RunRef
    adopted: bool


@dataclass(frozen=True, slots=True)
class RunStarter:
    """Starts runs for one request."""

    api: CloudApi
    request: LaunchRequest
    deadline: float
    pause: float
    """Seconds between requests about something that should change soon."""
    poll: float
    """Seconds between requests to an agent that is busy."""

    async def start(self, session: str | None) -> StartedRun:
        """Start a new agent, or another run of the session's agent."""
        if session is None:
            return await self._launch(self.request)
        last = RunRef.parse(session)
        if not self.api.owns(last):
            return await self._launch(await self._succeed(last))
        for left in reversed(range(_SENDS)):
            try:
                return await self._follow_up(last)
            except CloudError as error:
                if error.gone:
                    return await self._launch(await self._succeed(last))
                if not error.unsure or not left:
                    raise
            # It may have been sent: the agent's newest run will show.
            await asyncio.sleep(self.pause)
        raise AssertionError("the last attempt returns or raises")

    async def find(self, session: str | None, deadline: float) -> RunRef | None:
        """Return the run that was started by a request whose answer nobody waited for, if any."""
        if session is None or not self.api.owns(last := RunRef.parse(session)):
            return await self.api.find(self.request.token, deadline)
        newest = await self.api.latest(last.agent, deadline)
        return newest if newest.run != last.run else None

    async def _launch(self, request: LaunchRequest) -> StartedRun:
        if not self.api.mints_ids and (found := await self.api.find(request.token, self.deadline)):
            return StartedRun(found, adopted=True)
        try:
            return StartedRun(await self.api.launch(request, self.deadline), adopted=False)
        except CloudError as error:
            if not error.unsure:
                raise
            if found := await self._search(request.token):
                return StartedRun(found, adopted=True)
            if error.code == "agent_id_conflict":
                raise CloudError("agent_not_found", "the agent was deleted", status=404) from None
            raise

    async def _search(self, token: str) -> RunRef | None:
        """Return the agent of a launch that was not answered; it may appear a little later."""
        for pause in _SEARCHES:
            await asyncio.sleep(min(pause * self.pause, max(0.0, self.deadline - _now())))
            if (found := await self.api.find(token, self.deadline)) is not None:
                return found
        return None

    async def _follow_up(self, last: RunRef) -> StartedRun:
        """Return the run after the session's last one; start it if it does not exist."""
        while True:
            newest = await self.api.latest(last.agent, self.deadline)
            if newest.run != last.run:
                return StartedRun(newest, adopted=True)
            try:
                return StartedRun(
                    await self.api.follow_up(newest, self.request, self.deadline), adopted=False
                )
            except CloudError as error:
                if error.code != "agent_busy" or _now() + self.poll > self.deadline:
                    raise
            await asyncio.sleep(self.poll)

    async def _succeed(self, last: RunRef) -> LaunchRequest:
        """Return the request for a new agent that continues where one that is archived or gone stopped."""
        branch = await self._find_branch(last) or self.request.base
        on_branch = bool(branch) and not _SHA.fullmatch(branch)
        return replace(self.request, base=branch, on_base=on_branch)

    async def _find_branch(self, last: RunRef) -> str:
        """Return the only branch that the agent has pushed, if that can still be found out."""
        try:
            snapshot = await self.api.get(last, self.deadline)
        except CloudError:
            return ""
        ours = [
            b.name
            for b in snapshot.branches
            if b.name and same_repository(b.repository, self.request.repository)
        ]
        return ours[0] if len(ours) == 1 else ""


def _now() -> float:
    return asyncio.get_running_loop().time()
