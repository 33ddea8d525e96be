"""Everything a running simulator knows: agents, repositories, counters, tasks under way."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from segue.sim.cloud.answers import Refusal
from segue.sim.cloud.objects import Agent, Checkout, Run
from segue.sim.cloud.remote import Remotes
from segue.sim.cloud.script import Script
from segue.sim.cloud.switches import FaultCounter, Limiter, Playbook, slug
from segue.sim.http.log import RequestLog


@dataclass(frozen=True, slots=True)
class Download:
    """An artifact behind an address that works for a while."""

    data: bytes
    expires: float


@dataclass(slots=True)
class Cloud:
    """The state of one simulator; lives in one event loop."""

    script: Script
    playbook: Playbook
    faults: FaultCounter
    remotes: Remotes = field(default_factory=Remotes)
    limiter: Limiter = field(default_factory=Limiter)
    log: RequestLog = field(default_factory=RequestLog)
    agents: dict[str, Agent] = field(default_factory=dict)
    """In the order of their launches; deleted ones stay, so that their ids stay taken."""
    pulls: dict[str, Checkout] = field(default_factory=dict)
    downloads: dict[str, Download] = field(default_factory=dict)
    _branches: set[str] = field(default_factory=set)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _client: httpx2.AsyncClient | None = None

    @classmethod
    def make(cls, script: Script, repos: Mapping[str, Path]) -> Cloud:
        """A simulator without agents."""
        cloud = cls(script, Playbook([]), FaultCounter([]))
        cloud.load(script)
        for url, bare in repos.items():
            cloud.remotes.add(url, bare)
        return cloud

    def load(self, script: Script) -> None:
        """Play another script from its beginning; agents and repositories stay."""
        self.script = script
        self.playbook = Playbook(list(script.on))
        self.faults = FaultCounter(list(script.faults))
        for url, bare in script.repos.items():
            self.remotes.add(url, bare)

    @property
    def client(self) -> httpx2.AsyncClient:
        """For webhooks; made when the first one is sent."""
        if self._client is None:
            self._client = httpx2.AsyncClient(timeout=10.0, trust_env=False)
        return self._client

    def agent(self, agent_id: str) -> Agent:
        """The agent with this id, unless it was deleted."""
        agent = self.agents.get(agent_id)
        if agent is None or agent.deleted:
            raise Refusal("agent_not_found")
        return agent

    def run(self, agent_id: str, run_id: str) -> tuple[Agent, Run]:
        """An agent's run."""
        agent = self.agent(agent_id)
        for run in agent.runs:
            if run.id == run_id:
                return agent, run
        raise Refusal("run_not_found")

    def active(self) -> int:
        """How many runs have not ended."""
        return sum(1 for agent in self.agents.values() if agent.runs and agent.latest.active)

    def new_branch(self, name: str) -> str:
        """`cursor/<slug>-<4 hex>`, never the same twice."""
        while (branch := f"cursor/{slug(name)}-{secrets.token_hex(2)}") in self._branches:
            pass
        self._branches.add(branch)
        return branch

    def offer(self, data: bytes) -> tuple[str, float]:
        """Make an artifact available for a while; gives the token of its address and the end of the while."""
        now = time.time()
        self.downloads = {token: kept for token, kept in self.downloads.items() if kept.expires > now}
        token = secrets.token_urlsafe(16)
        self.downloads[token] = Download(data, now + self.script.artifact_ttl)
        return token, self.downloads[token].expires

    def start(self, run: Run, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Let a run work in the background."""
        task = asyncio.create_task(work, name=run.id)
        self._tasks[run.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(run.id, None))
        return task

    def halt(self, run: Run) -> None:
        """Stop a run's work where it stands."""
        task = self._tasks.pop(run.id, None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Stop all work."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()
