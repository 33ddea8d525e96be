"""The connection to the API that all runs of one agent share, open as long as one of them is active."""

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


@dataclass(slots=True)
class Connection:
    """An open connection."""

    api: CloudApi
    slots: asyncio.Semaphore | None
    """The streams that may be open at once; None: no streams."""
    _loop: asyncio.AbstractEventLoop
    _stack: AsyncExitStack
    _users: int = 0


class SharedConnection:
    """Opens the connection for the first run and closes it after the last."""

    def __init__(self, base_url: str, version: str, streams: int, policy: HttpPolicy) -> None:
        """`streams` is how many runs may be streamed at once; 0: none."""
        self._base_url, self._version, self._streams, self._policy = base_url, version, streams, policy
        self._connection: Connection | None = None

    @asynccontextmanager
    async def open(self, key: str) -> AsyncIterator[Connection]:
        """Return the connection, shared with all other runs in this event loop."""
        shared = self._connection
        if shared is None or shared._loop is not asyncio.get_running_loop():
            shared = self._connection = await self._connect(key)
        shared._users += 1
        try:
            yield shared
        finally:
            shared._users -= 1
            if not shared._users:
                self._connection = None if self._connection is shared else self._connection
                await shared._stack.aclose()

    async def _connect(self, key: str) -> Connection:
        stack = AsyncExitStack()
        http = HttpClient(self._base_url, _make_headers(self._version, key), self._policy)
        await stack.enter_async_context(http)
        api: CloudApi = CloudV1(http) if self._version == "v1" else CloudV0(http)
        slots = asyncio.Semaphore(self._streams) if self._streams else None
        return Connection(api, slots, asyncio.get_running_loop(), stack)


def _make_headers(version: str, key: str) -> Mapping[str, str]:
    # v1 takes both schemes; v0 documents only the older one.
    basic = "Basic " + base64.b64encode(f"{key}:".encode()).decode()
    scheme = f"Bearer {key}" if version == "v1" else basic
    return {"Authorization": scheme, "User-Agent": f"segue/{__version__}"}
