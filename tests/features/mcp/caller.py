"""A client of the MCP server, as an agent or editor is one."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.cli.place import DEADLINE, Place
from tests.later import Later

mcp: Any = Later("mcp")

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
async def over_stdio(place: Place, *args: str, command: Sequence[str] = COMMAND) -> AsyncIterator[Caller]:
    """Start the server as an agent does, and talk to it."""
    server = mcp.StdioServerParameters(
        command=command[0], args=[*command[1:], *args], env=place.env, cwd=place.repo
    )
    async with mcp.Client(server) as client:
        yield Caller(client)
