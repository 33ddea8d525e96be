"""The line to the API that all runs of one agent share, open as long as one of them is under way."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from segue import __version__
from segue.agents.cursor_cloud.api import CloudApi
from segue.agents.cursor_cloud.client import CloudV1
from segue.agents.cursor_cloud.client_v0 import CloudV0
from segue.system.http.client import HttpClient, HttpPolicy


@dataclass(frozen=True, slots=True)
class Terms:
    """How the API is reached."""

    base_url: str
    version: str
    streams: int
    """How many runs may be streamed at once; 0: none."""
    policy: HttpPolicy


@dataclass(slots=True)
class Line:
    """An open line."""

    api: CloudApi
    slots: asyncio.Semaphore | None
    _loop: asyncio.AbstractEventLoop
    _stack: AsyncExitStack
    _users: int = 0


class Lines:
    """Opens the line for the first run and closes it after the last."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._line: Line | None = None

    @asynccontextmanager
    async def open(self, key: str) -> AsyncIterator[Line]:
        """The line, shared with all other runs in this event loop."""
        line = self._line
        if line is None or line._loop is not asyncio.get_running_loop():
            line = self._line = await self._opened(key)
        line._users += 1
        try:
            yield line
        finally:
            line._users -= 1
            if not line._users:
                self._line = None if self._line is line else self._line
                await line._stack.aclose()

    async def _opened(self, key: str) -> Line:
        terms = self._terms
        stack = AsyncExitStack()
        http = HttpClient(terms.base_url, _headers(terms.version, key), terms.policy)
        await stack.enter_async_context(http)
        api: CloudApi = CloudV1(http) if terms.version == "v1" else CloudV0(http)
        slots = asyncio.Semaphore(terms.streams) if terms.streams else None
        return Line(api, slots, asyncio.get_running_loop(), stack)


def _headers(version: str, key: str) -> Mapping[str, str]:
    # v1 takes both schemes; v0 documents only the older one.
    basic = "Basic " + base64.b64encode(f"{key}:".encode()).decode()
    scheme = f"Bearer {key}" if version == "v1" else basic
    return {"Authorization": scheme, "User-Agent": f"segue/{__version__}"}
