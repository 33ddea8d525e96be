"""A client of the MCP server, as an agent or editor is one."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import loopback
from tests.cli.place import DEADLINE, Place, until
from tests.later import Later
from tests.warm import start_segue

mcp: Any = Later("mcp")
streamable_http: Any = Later("mcp.client.streamable_http")

MODES = ("legacy", "auto")
"""With the handshake of clients before 2026, and without."""
COMMAND = (sys.executable, "-m", "segue", "mcp")


@dataclass
class Caller:
    """Calls tools and remembers the progress that was reported."""

    client: Any
    progress: list[tuple[float, float | None, str | None]] = field(default_factory=list)

    async def call(self, tool: str, **values: Any) -> dict[str, Any]:
        """Call a tool that must work."""
        failed, answer = await self.attempt(tool, values)
        assert not failed, answer
        assert isinstance(answer, dict)
        return answer

    async def refused(self, tool: str, **values: Any) -> str:
        """Call a tool that must not work; return what the model is told."""
        failed, answer = await self.attempt(tool, values)
        assert failed, answer
        assert isinstance(answer, str)
        return answer

    async def read(self, uri: str) -> str:
        """Read a resource."""
        text: str = (await self.client.read_resource(uri)).contents[0].text
        return text

    async def attempt(self, tool: str, values: dict[str, Any]) -> tuple[bool, Any]:
        """Call a tool; return whether that failed, and what it answered."""

        async def remember(progress: float, total: float | None, message: str | None) -> None:
            self.progress.append((progress, total, message))

        result = await self.client.call_tool(
            tool, values, read_timeout_seconds=DEADLINE, progress_callback=remember
        )
        text = result.content[0].text if result.content else ""
        return bool(result.is_error), text if result.is_error else result.structured_content


@asynccontextmanager
async def over_stdio(
    place: Place, mode: str = "auto", command: Sequence[str] = COMMAND, *args: str
) -> AsyncIterator[Caller]:
    """Start the server as an agent does, and talk to it."""
    server = mcp.StdioServerParameters(
        command=command[0], args=[*command[1:], *args], env=place.env, cwd=place.repo
    )
    async with mcp.Client(server, mode=mode) as client:
        yield Caller(client)


@dataclass
class Listening:
    """A server that listens on this machine."""

    url: str
    token: str


@asynccontextmanager
async def listening(place: Place, *args: str) -> AsyncIterator[Listening]:
    """Start the server over HTTP."""
    log = place.root / "listening"
    with log.open("w") as out, (place.root / "listening.err").open("w") as err:
        words = ["mcp", "--http", "--port", "0", "--json", *args]
        process = start_segue(words, place.repo, place.env, out, err)
    try:
        until(lambda: log.read_text().endswith("\n"), "the server listens")
        told = json.loads(log.read_text())
        yield Listening(told["url"], Path(told["token_file"]).read_text().strip())
    finally:
        process.terminate()
        process.wait(DEADLINE)


@asynccontextmanager
async def over_http(place: Place, mode: str = "auto", *args: str) -> AsyncIterator[Caller]:
    """Connect to a server that listens, with its token: it starts faster than over stdio."""
    async with (
        listening(place, *args) as server,
        loopback.async_client(headers={"Authorization": f"Bearer {server.token}"}, timeout=DEADLINE) as http,
        mcp.Client(streamable_http.streamable_http_client(server.url, http_client=http), mode=mode) as client,
    ):
        yield Caller(client)
