"""Resources: runs and proofs that a client may read and attach without a tool."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, TypeVar

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError

from segue.domain.errors import SegueError
from segue.domain.text import clean
from segue.mcp.look import read_cards, read_status
from segue.mcp.project import ServedProject
from segue.reports.card.layout import lay_out
from segue.reports.card.markdown import render_markdown

Found = TypeVar("Found")


def add_resources(server: MCPServer[None], project: ServedProject) -> None:
    """Offer `run://RUN`, `proof://RUN` and `proof://RUN/TASK`."""

    @server.resource("run://{run}", mime_type="application/json")
    async def run(run: str) -> str:
        """Return a run with its tasks; `last` is the newest one."""
        return clean(json.dumps(await _find(read_status, project, run), ensure_ascii=False))

    @server.resource("proof://{run}", mime_type="text/markdown")
    async def proof_of_run(run: str) -> str:
        """Return the proof cards of all tasks of a run."""
        return await _render(project, run)

    @server.resource("proof://{run}/{task}", mime_type="text/markdown")
    async def proof_of_task(run: str, task: str) -> str:
        """Return the proof card of one task: what was checked, by whom, and what is missing."""
        return await _render(project, run, task)


async def _render(project: ServedProject, run: str, task: str = "") -> str:
    return clean(render_markdown([lay_out(card) for card in await _find(read_cards, project, run, task)]))


async def _find(read: Callable[..., Found], *args: Any) -> Found:
    try:
        return await asyncio.to_thread(read, *args)
    except SegueError as error:
        raise ResourceNotFoundError(error.message) from error
