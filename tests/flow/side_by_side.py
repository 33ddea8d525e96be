"""The loop with lanes in this process: real work trees, a real branch, and agents that tests can hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from segue.domain.events import AgentStarted, Event, TaskEnded, TaskMerged, TaskStarted
from segue.domain.job import Job
from segue.domain.outcome import Outcome
from segue.flow.context import Lane, Lanes, RunContext
from segue.flow.lanes import Seat, Seats
from segue.flow.parallel import run_side_by_side
from segue.system.git.integration import Integration
from segue.system.git.lanes import LaneTree, LaneTrees
from segue.system.git.repository import Repository
from tests.flow.loop import FunctionAgent, Loop

Pace = Callable[[Job], Awaitable[None]]
"""Is awaited before a launch does its work."""


class PacedAgent(FunctionAgent):
    """An agent whose launches can be held up."""

    pace: Pace | None = None
    at_work = 0
    most = 0

    async def run(self, job: Job) -> AsyncGenerator[Event | Outcome, None]:
        """Wait as long as the test wants, then call the function."""
        self.jobs.append(job)
        yield AgentStarted("function")
        self.at_work += 1
        self.most = max(self.most, self.at_work)
        try:
            await (self.pace(job) if self.pace else asyncio.sleep(0))
        finally:
            self.at_work -= 1
        yield self._behave(job)


class LoopLanes:
    """Lanes beside the repository of a loop."""

    def __init__(self, loop: SideLoop, home: Repository) -> None:
        self.loop, self.home = loop, home
        self.trees = LaneTrees(home, loop.root / "lanes", loop.run_id)
        self.branch = Integration(home, loop.branch)
        self.seats = Seats(loop.jobs)

    async def open(self, context: RunContext, number: int, seat: Seat) -> RunContext:
        """Return the context of a lane."""

        async def tell(said: str) -> None:
            self.loop.kept.append(said)

        made = await self.trees.open(number, await self.branch.head())
        tree = LaneTree(made.root, made.git_dir, trees=self.trees, tell=tell)
        return replace(
            context,
            workspace=tree,
            launcher=replace(context.launcher, seat=seat, lane=number),
            lane=Lane(number, tree, self.branch, self.seats, seat, context.checking),
        )


@dataclass
class SideLoop(Loop):
    """One run with lanes that tests drive session by session."""

    jobs: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        self.kept: list[str] = []

    @property
    def branch(self) -> str:
        """The branch of the run."""
        return f"segue/{self.run_id}"

    async def _session(self, chosen: Sequence[str]) -> None:
        async with self.lanes() as (context, lanes):
            await run_side_by_side(context, chosen, Lanes(lanes.seats, lanes.open))

    @asynccontextmanager
    async def lanes(self) -> AsyncGenerator[tuple[RunContext, LoopLanes], None]:
        """Open the run and its lanes."""
        async with self.context() as context:
            home = await Repository.open(self.repo)
            if not await home.has_branch(self.branch):
                self.git("branch", self.branch)
            yield context, LoopLanes(self, home)

    def files(self) -> dict[str, str]:
        """What the branch of the run contains."""
        names = self.git("ls-tree", "-r", "--name-only", self.branch).splitlines()
        return {name: self.git("show", f"{self.branch}:{name}") for name in names}

    def order(self, kind: type[TaskStarted | TaskMerged | TaskEnded]) -> list[str]:
        """The tasks in the order in which something happened to them."""
        return [one.event.task for one in self.events if isinstance(one.event, kind)]


def write(*names: str) -> Callable[[Job], Outcome]:
    """An agent that adds a line with its task to each of these files; `{task}` stands for the task."""

    def behave(job: Job) -> Outcome:
        for name in names:
            path = Path(job.workspace, name.format(task=job.labels["task"]))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text((path.read_text() if path.exists() else "") + f"{job.labels['task']}\n")
        return Outcome("Done.")

    return behave
