"""One connection to a vendor's API for all jobs of an agent, and the key it is opened with."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from msgspec import Struct

from segue import __version__
from segue.agents.cloud.options import CloudAccess
from segue.domain.errors import CredentialsError
from segue.domain.text import LONGEST_ANSWER
from segue.ports import Problem
from segue.system.http.client import HttpClient, HttpPolicy

_ATTEMPTS = 4
"""How often a request is sent before people see that the API is waited for."""


class CloudKey(Struct, frozen=True):
    """Where the key of a vendor comes from."""

    names: tuple[str, ...]
    """The environment variables that may contain it; the first one that is set counts."""
    where: str
    """Where people get one."""

    def read(self) -> tuple[str, str]:
        """Return the variable with the key, and the key; it may be empty."""
        found = {name: os.environ.get(name, "").strip() for name in self.names}
        name = next((name for name, key in found.items() if key), self.names[0])
        return name, found[name]

    def check(self) -> list[Problem]:
        """Return a problem if there is no key, or none that can be sent."""
        name, key = self.read()
        if key and key.isascii() and key.isprintable() and " " not in key:
            return []
        what = f"{name} has characters that no key has." if key else f"{' or '.join(self.names)} is not set."
        fix = f"Create a key at {self.where} and set {name}."
        return [Problem(what, fix, CredentialsError.exit_code)]


def _make_policy(options: CloudAccess, streams: int) -> HttpPolicy:
    """Return the limits of a connection; what an agent has said comes in one response."""
    return HttpPolicy(
        *(options.max_connections, streams),
        max_bytes=4 * LONGEST_ANSWER,
        pause=options.retry_pause,
        attempts=_ATTEMPTS,
    )


class Connection(Struct):
    """An open connection."""

    http: HttpClient
    slots: asyncio.Semaphore | None
    """The streams that may be open at once; None: no streams."""
    _loop: asyncio.AbstractEventLoop
    _stack: AsyncExitStack
    _users: int = 0


class SharedConnection:
    """Opens the connection for the first job and closes it after the last."""

    def __init__(
        self, options: CloudAccess, headers: Callable[[str], Mapping[str, str]], streams: int
    ) -> None:
        """`headers` makes headers from the key; `streams` may be open at once, 0: none."""
        self._base_url, self._headers, self._streams = options.base_url, headers, streams
        self._policy = _make_policy(options, streams)
        self._connection: Connection | None = None

    @asynccontextmanager
    async def open(self, key: str) -> AsyncIterator[Connection]:
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

    async def _connect(self, key: str) -> Connection:
        stack = AsyncExitStack()
        headers = {"User-Agent": f"segue/{__version__}", **self._headers(key)}
        http = await stack.enter_async_context(HttpClient(self._base_url, headers, self._policy))
        slots = asyncio.Semaphore(self._streams) if self._streams else None
        return Connection(http, slots, asyncio.get_running_loop(), stack)
