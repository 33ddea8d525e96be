"""The tool that waits for a run, and reports its progress meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Annotated

from mcp.server.mcpserver import Context
from pydantic import Field

from segue.domain.amounts import describe_until
from segue.domain.run import Run
from segue.mcp.look import Data, RunName, describe
from segue.mcp.project import ServedProject
from segue.ports import Store
from segue.view.load import ACTIVE, load_view, state_of
from segue.view.run import RunView

_LONGEST = 600
_LOOK_SECONDS = 1.0

Report = Callable[[float, float, str], Awaitable[None]]


class WaitTool:
    """Waits without holding anything: the run works in a process of its own."""

    def __init__(self, project: ServedProject) -> None:
        self._project = project

    async def wait_for_run(
        self,
        ctx: Context,
        run: RunName = "last",
        seconds: Annotated[
            float, Field(ge=0, le=_LONGEST, description="Return after so many seconds at the latest.")
        ] = 45,
    ) -> Data:
        """Wait until a run ends or needs a decision, and return its status; or after some seconds, as it is.

        Reports progress meanwhile. Call it again while the state is `queued`, `running` or `parked`.
        """
        app = await asyncio.to_thread(self._project.look)
        with app.store(read_only=True) as store:
            found = await asyncio.to_thread(self._project.find, store, app, run)
            return await _watch(store, found, seconds, ctx.report_progress)


async def _watch(store: Store, run: Run, seconds: float, report: Report) -> Data:
    deadline = time.monotonic() + seconds
    progress = _Progress(report)
    while True:
        run, view = await asyncio.to_thread(_read, store, run)
        left = deadline - time.monotonic()
        if state_of(run) not in ACTIVE or left <= 0:
            return describe(run, view)
        await progress.tell(view)
        await asyncio.to_thread(store.wait_for_change, min(_LOOK_SECONDS, left))


def _read(store: Store, run: Run) -> tuple[Run, RunView]:
    now = store.run(run.id) or run
    return now, load_view(store, now)


class _Progress:
    """Reports what changed; the number it reports grows with every report, as the protocol demands."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._last = ""
        self._done = -1
        self._told = 0

    async def tell(self, view: RunView) -> None:
        words = _describe(view)
        if words == self._last:
            return
        self._told = self._told + 1 if view.done == self._done else 0
        self._last, self._done = words, view.done
        await self._report(view.done + 1 - 1 / (1 + self._told), max(len(view.tasks), view.done + 1), words)


def _describe(view: RunView) -> str:
    working = [task for task in view.tasks.values() if task.state in ("running", "parked")]
    parts = [f"{view.done} of {len(view.tasks)} tasks done"]
    parts += [" ".join(filter(None, (f"task {task.key}:", task.phase, task.agent))) for task in working[:3]]
    parts += [f"task {task.key} waits {describe_until(task.wake)}" for task in working[:3] if task.wake]
    return " · ".join(parts)
