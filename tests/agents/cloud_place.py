"""A cloud agent of ours against the simulator, and short words for what tests ask of it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segue.agents.cursor_cloud.agent import CursorCloudAgent
from segue.agents.cursor_cloud.api import CursorCloudOptions
from segue.domain.events import AgentText
from segue.domain.job import Job, Limits
from segue.domain.options import read_options
from segue.domain.outcome import Outcome
from segue.domain.task import Task
from segue.prompts.task import execute_prompt
from segue.system.process.processes import Processes
from tests.agents.items import Items, T, lend, of, outcome, run_to_end
from tests.parts.sim.cloud_desk import DEADLINE, REPO, Desk, open_desk

KEY = "crsr_0123456789abcdef0123456789abcdef"
LAUNCH = "POST /v1/agents"
FOLLOW_UP = "POST /v1/agents/*/runs"
LOOK = "GET /v1/agents/*/runs/*"
STREAM = "GET /v1/agents/*/runs/*/stream"
CANCEL = "POST /v1/agents/*/runs/*/cancel"


@dataclass(frozen=True)
class Ended:
    """Everything a job yielded."""

    items: Items

    @property
    def outcome(self) -> Outcome:
        return outcome(self.items)

    @property
    def kind(self) -> str | None:
        failure = self.outcome.failure
        return failure.kind.value if failure else None

    @property
    def message(self) -> str:
        failure = self.outcome.failure
        return failure.message if failure else ""

    @property
    def facts(self) -> Any:
        return self.outcome.facts

    def of(self, kind: type[T]) -> list[T]:
        return of(self.items, kind)

    @property
    def said(self) -> str:
        return "".join(event.text for event in self.of(AgentText))


@dataclass(frozen=True)
class CloudPlace:
    """A simulator, a folder for Segue's own files, and agents with short pauses."""

    desk: Desk
    folder: Path

    def options(self, **more: Any) -> CursorCloudOptions:
        given = {"base_url": self.desk.url, "repository": REPO, "poll_interval": 0.05, "retry_pause": 0.02}
        return read_options(CursorCloudOptions, given | more)

    @asynccontextmanager
    async def agent(self, **options: Any) -> AsyncIterator[CursorCloudAgent]:
        async with Processes(self.folder / "run") as processes:
            yield CursorCloudAgent(self.options(**options), lend(processes, KEY))

    def run(self, job: Job, **options: Any) -> Ended:
        """Carry the job in an event loop of its own, as a Segue that was started anew would."""

        async def carried() -> Ended:
            async with self.agent(**options) as agent, asyncio.timeout(DEADLINE):
                return Ended(await run_to_end(agent, job))

        return asyncio.run(carried())

    def job(self, text: str = "Write a poem", wall: float = 50.0, idle: float = 50.0, **more: Any) -> Job:
        prompt = execute_prompt(Task("1", text, ""), "")
        limits = Limits(wall=wall, idle=idle)
        given: dict[str, Any] = {
            "token": uuid.uuid4().hex,
            "prompt": prompt,
            "workspace": self.folder,
            "limits": limits,
        }
        return Job(**(given | more))

    def asked(self, pattern: str) -> list[dict[str, Any]]:
        """The requests that fit a method and a path."""
        method, _, path = pattern.partition(" ")
        return [seen for seen in self.desk.log() if seen["method"] == method and _fits(path, seen["path"])]


def _fits(pattern: str, path: str) -> bool:
    wanted, parts = pattern.split("/"), path.split("/")
    return len(wanted) == len(parts) and all(w in ("*", p) for w, p in zip(wanted, parts, strict=True))


@contextmanager
def open_place(folder: Path, **script: Any) -> Iterator[CloudPlace]:
    """A place whose simulator plays the script."""
    with open_desk(folder, **script) as desk:
        yield CloudPlace(desk, folder)
