"""The state of a running simulator: agents, repositories, counters, background tasks."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

import httpx2
from msgspec import Struct

from segue.parts.sim.cloud.objects import Checkout, CloudAgentRecord, CloudRunRecord
from segue.parts.sim.cloud.requests import CloudRefusal
from segue.parts.sim.cloud.script import CloudScript, RateLimiter, make_slug
from segue.parts.sim.gate import RemotePlayer


class Download(Struct, frozen=True):
    """An artifact that can be downloaded until it expires."""

    data: bytes
    expires: float


class Cloud(RemotePlayer[CloudScript]):
    """The state of one simulator, in one event loop."""

    def __init__(self, script: CloudScript | None = None, repos: Mapping[str, Path] | None = None) -> None:
        super().__init__(CloudScript, script, repos)
        self.limiter = RateLimiter()
        self.agents: dict[str, CloudAgentRecord] = {}
        """In the order of their launches; deleted ones are kept, so that their ids stay taken."""
        self.pulls: dict[str, Checkout] = {}
        self.downloads: dict[str, Download] = {}
        self._branches: set[str] = set()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._client: httpx2.AsyncClient | None = None

    @property
    def client(self) -> httpx2.AsyncClient:
        """The client that sends webhooks, created for the first one."""
        if self._client is None:
            self._client = httpx2.AsyncClient(timeout=10.0, trust_env=False)
        return self._client

    def find_agent(self, agent_id: str) -> CloudAgentRecord:
        """Return the agent with this id, unless it was deleted."""
        agent = self.agents.get(agent_id)
        if agent is None or agent.deleted:
            raise CloudRefusal("agent_not_found")
        return agent

    def find_run(self, agent_id: str, run_id: str) -> tuple[CloudAgentRecord, CloudRunRecord]:
        """Return an agent and one of its runs."""
        agent = self.find_agent(agent_id)
        for run in agent.runs:
            if run.id == run_id:
                return agent, run
        raise CloudRefusal("run_not_found")

    def count_active(self) -> int:
        """Count the runs that have not ended."""
        return sum(1 for agent in self.agents.values() if agent.runs and agent.latest.is_active)

    def new_branch(self, name: str) -> str:
        """Make up a branch `cursor/<slug>-<4 hex>`, never the same twice."""
        while (branch := f"cursor/{make_slug(name)}-{secrets.token_hex(2)}") in self._branches:
            pass
        self._branches.add(branch)
        return branch

    def offer(self, data: bytes) -> tuple[str, float]:
        """Make an artifact available; returns the token of its address and when it expires."""
        now = time.time()
        self.downloads = {token: kept for token, kept in self.downloads.items() if kept.expires > now}
        token = secrets.token_urlsafe(16)
        self.downloads[token] = Download(data, now + self.script.artifact_ttl)
        return token, self.downloads[token].expires

    def start(self, run: CloudRunRecord, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a run in the background."""
        task = asyncio.create_task(work, name=run.id)
        self._tasks[run.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(run.id, None))
        return task

    def halt(self, run: CloudRunRecord) -> None:
        """Stop a run at once."""
        task = self._tasks.pop(run.id, None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Stop all runs."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()
