"""One connection to a vendor's API for all jobs of an agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Generic, TypeVar

from msgspec import Struct

from segue import __version__
from segue.system.http.client import HttpClient, HttpPolicy

Api = TypeVar("Api")


class Connection(Struct, Generic[Api]):
    """An open connection."""

    api: Api
    slots: asyncio.Semaphore | None
    """The streams that may be open at once; None: no streams."""
    _loop: asyncio.AbstractEventLoop
    _stack: AsyncExitStack
    _users: int = 0


class SharedConnection(Generic[Api]):
    """Opens the connection for the first job and closes it after the last."""

    def __init__(
        self,
        base_url: str,
        headers: Callable[[str], Mapping[str, str]],
        policy: HttpPolicy,
        streams: int,
        make: Callable[[HttpClient], Api],
    ) -> None:
        """`headers` makes headers from the key; `streams` may be open at once, 0: none."""
        self._base_url, self._headers, self._policy = base_url, headers, policy
        self._streams, self._make = streams, make
        self._connection: Connection[Api] | None = None

    @asynccontextmanager
    async def open(self, key: str) -> AsyncIterator[Connection[Api]]:
        """Return the connection, shared with all other jobs in this event loop."""
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

    async def _connect(self, key: str) -> Connection[Api]:
        stack = AsyncExitStack()
        headers = {"User-Agent": f"segue/{__version__}", **self._headers(key)}
        http = await stack.enter_async_context(HttpClient(self._base_url, headers, self._policy))
        slots = asyncio.Semaphore(self._streams) if self._streams else None
        return Connection(self._make(http), slots, asyncio.get_running_loop(), stack)
