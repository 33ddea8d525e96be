"""The cursor-cloud agent: Cursor's Cloud Agents API, whose agents work elsewhere and push branches.

See `docs/guides/cursor-cloud.md`. A launch is named after its token before it is requested, so a Segue that
was killed finds it again and never pays for a second one.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from segue.agents.cloud.agent import CloudAgent
from segue.agents.cloud.errors import CloudError
from segue.agents.cloud.launch import CloudProfile, StartedSession
from segue.agents.cloud.transcript import Transcript
from segue.agents.cloud.vendor import CloudOrder, CloudSession
from segue.agents.cloud.watch import loop_time
from segue.agents.cursor_cloud.api import CURSOR, KEY, CursorCloudOptions, RunRef
from segue.agents.cursor_cloud.client_v0 import CloudV0
from segue.agents.cursor_cloud.client_v1 import CloudV1
from segue.ports import Capabilities
from segue.system.services import Services

_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}", re.IGNORECASE)
_SEARCHES = (0.0, 1.0, 3.0)
"""How many pauses to wait before each search for a launch that was not answered."""

_SENDS = 4


class RunStarter(Struct, frozen=True):
    """Starts runs for one order."""

    api: CloudV1 | CloudV0
    order: CloudOrder
    deadline: float
    options: CursorCloudOptions

    async def start(self, session: str | None) -> StartedSession:
        """Start a new agent, or another run of the session's agent."""
        if session is None:
            return await self._launch(self.order)
        last = RunRef.parse(session)
        if not self.api.owns(last):
            return await self._launch(await self._succeed(last))
        for left in reversed(range(_SENDS)):
            try:
                return await self._follow_up(last)
            except CloudError as error:
                if error.archived:
                    return await self._launch(await self._succeed(last))
                if not error.unsure or not left:
                    raise
            # It may have been sent: the agent's newest run will show.
            await asyncio.sleep(self.options.retry_pause)
        raise AssertionError("the last attempt returns or raises")

    async def find(self, session: str | None, deadline: float) -> CloudSession | None:
        """Return the run that was started by a request whose answer nobody waited for, if any."""
        if session is None or not self.api.owns(last := RunRef.parse(session)):
            found = await self.api.find(self.order, deadline)
            return CloudSession(str(found)) if found else None
        newest = await self.api.latest(last.agent, deadline)
        return CloudSession(str(newest)) if newest.run != last.run else None

    def may_start_again(self, error: CloudError) -> bool:
        """Return whether a second agent would have the same id, or the first was certainly not launched."""
        return self.api.mints_ids or not error.unsure

    async def _launch(self, order: CloudOrder) -> StartedSession:
        if not self.api.mints_ids and (found := await self.api.find(order, self.deadline)):
            return _started(found, adopted=True)
        try:
            return _started(await self.api.launch(order, self.deadline), adopted=False)
        except CloudError as error:
            if not error.unsure:
                raise
            if found := await self._search(order):
                return _started(found, adopted=True)
            if error.code == "agent_id_conflict":
                raise CloudError("agent_not_found", "the agent was deleted", status=404) from None
            raise

    async def _search(self, order: CloudOrder) -> RunRef | None:
        """Return the agent of a launch that was not answered; it may appear a little later."""
        for pause in _SEARCHES:
            await asyncio.sleep(min(pause * self.options.retry_pause, max(0.0, self.deadline - loop_time())))
            if (found := await self.api.find(order, self.deadline)) is not None:
                return found
        return None

    async def _follow_up(self, last: RunRef) -> StartedSession:
        """Return the run after the session's last one; start it if it does not exist."""
        while True:
            newest = await self.api.latest(last.agent, self.deadline)
            if newest.run != last.run:
                return _started(newest, adopted=True)
            try:
                return _started(await self.api.follow_up(newest, self.order, self.deadline), adopted=False)
            except CloudError as error:
                if error.code != "agent_busy" or loop_time() + self.options.poll_interval > self.deadline:
                    raise
            await asyncio.sleep(self.options.poll_interval)

    async def _succeed(self, last: RunRef) -> CloudOrder:
        """Return the order for a new agent that continues where one that is archived stopped."""
        branch = await self._find_branch(last) or self.order.base
        on_branch = bool(branch) and not _SHA.fullmatch(branch)
        return replace(self.order, base=branch, on_base=on_branch)

    async def _find_branch(self, last: RunRef) -> str:
        """Return the only branch that the agent has pushed, if that can still be found out."""
        try:
            look = await self.api.look(str(last), self.order, Transcript(0), self.deadline)
        except CloudError:
            return ""
        return look.branches[0] if len(look.branches) == 1 else ""


def _started(ref: RunRef, adopted: bool) -> StartedSession:
    return StartedSession(CloudSession(str(ref)), adopted)


class CursorCloudAgent(CloudAgent):
    """Has the work done by Cursor's cloud agents; what it can do depends on the version of the API."""

    Options = CursorCloudOptions
    name = "cursor-cloud"

    def __init__(self, options: CursorCloudOptions, services: Services) -> None:
        super().__init__(_make_profile(options), options, services)


def _make_profile(options: CursorCloudOptions) -> CloudProfile:
    current = options.api_version == "v1"
    streams = options.max_streams if current and options.stream else 0
    return CloudProfile(
        name=CursorCloudAgent.name,
        service=replace(CURSOR, version=f"API {options.api_version}"),
        keys=(KEY,),
        can=Capabilities(
            plan_mode=current,
            follow_up=True,
            cloud=True,
            streams=bool(streams),
            reports_usage=current,
            reports_cost=current,
            marks_prompt=not current,
        ),
        headers=_make_bearer if current else _make_basic,
        connect=CloudV1 if current else CloudV0,
        where="https://cursor.com/dashboard",
        options=CursorCloudOptions,
        starter=RunStarter,
        streams=lambda _options: streams,
        mode_hint="" if current else " in API v0; set agents.cursor-cloud.api_version to v1",
    )


def _make_bearer(key: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {key}"}


def _make_basic(key: str) -> Mapping[str, str]:
    """Return the only scheme that v0 documents."""
    return {"Authorization": "Basic " + base64.b64encode(f"{key}:".encode()).decode()}
