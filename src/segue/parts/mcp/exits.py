"""Tools for agents of a run: an honest way out. Segue reads the calls from what the agent reports."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from mcp.server import MCPServer
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field

from segue import __version__
from segue.domain.errors import UsageError
from segue.domain.exits import ASK_TOOL, CANNOT_TOOL, Citation, HonestExit, find_unshown, read_exit_call
from segue.parts.mcp.answers import explain
from segue.system.beneath import read_below

_END = """\
Segue tells the user. End your turn now and do nothing else: whatever you do after this takes it back.
Let this be your last line: """


class CitedPlace(BaseModel):
    """A place that shows why."""

    file: str = Field(default="", description="From the root of the repository; empty: the task itself.")
    line: int = 0
    quote: str = Field(default="", description="The words there, exactly.")


class ExitTools:
    """What the agent of a task may say instead of doing it."""

    def __init__(self, repo: Path) -> None:
        self._repo = repo

    async def cannot(
        self,
        cannot: Annotated[str, Field(description="Why the task cannot be done.", min_length=1)],
        evidence: Annotated[list[CitedPlace], Field(description="What shows it.", min_length=1)],
    ) -> str:
        """Say that your task cannot be done: it contradicts itself or its tests, or lacks what a person has.

        A task that is hard can be done. Evidence that is not in the repository is refused.
        """
        cited = tuple(Citation(one.file, one.line, one.quote) for one in evidence if one.file)
        missing = await asyncio.to_thread(find_unshown, HonestExit(cannot, "", cited), "", self._read)
        if cited and missing:
            raise UsageError(
                f"That does not show it: {'; '.join(missing[:5])}.",
                kept="Nothing was noted.",
                hint="Show it by file, line and quote, or do the task",
            )
        return _END + read_exit_call(
            CANNOT_TOOL, {"cannot": cannot, "evidence": [one.model_dump() for one in evidence]}
        )

    async def ask_person(
        self,
        question: Annotated[str, Field(description="The one question.", min_length=1)],
    ) -> str:
        """Ask a person, where one answer would do and you cannot find it. You continue when it is there."""
        return _END + read_exit_call(ASK_TOOL, {"question": question})

    def _read(self, path: str) -> str | None:
        return read_below(self._repo, self._repo / path).decode("utf-8", "replace") or None


def offer_exits(server: MCPServer[None], repo: Path) -> None:
    """Offer these tools to the agent that works in a folder."""
    ways = ExitTools(repo)
    for tool in (ways.cannot, ways.ask_person):
        server.add_tool(explain(tool), annotations=ToolAnnotations(read_only_hint=True))


def main(arguments: list[str]) -> int:
    """Serve an agent of a run, over stdin and stdout; the argument is the folder of its task."""
    server: MCPServer[None] = MCPServer("segue", title="Segue", version=__version__, log_level="WARNING")
    offer_exits(server, Path(arguments[0]))
    asyncio.run(server.run_stdio_async())
    return 0
