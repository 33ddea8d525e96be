"""What one conversation works with: its journal, its agents' processes, what it may use and has used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from segue.config.bridge import BridgeSettings
from segue.domain.budget import Budget
from segue.domain.event import Event, EventType
from segue.domain.outcome import Usage
from segue.domain.run import Step
from segue.flow.start import check_caps
from segue.ports import Agent, Journal
from segue.runtime.wiring import App, agent_class, make_agent
from segue.system.process.processes import Processes
from segue.system.redact import Redactor

LAUNCHING = ("turn", "subagent")
"""The phases of steps that launch an agent."""


@dataclass(slots=True)
class Spent:
    """What the conversation has used so far, counted over all its processes."""

    launches: int = 0
    usage: Usage = field(default_factory=Usage)

    @classmethod
    def of(cls, steps: Iterable[Step]) -> Spent:
        """Count what earlier processes used."""
        spent = cls()
        for step in steps:
            if step.phase in LAUNCHING:
                spent.launches += 1
                spent.add(step.output)
        return spent

    def add(self, output: dict[str, Any]) -> None:
        """Count what one launch used, from what its step wrote down."""
        usage = output.get("usage")
        if isinstance(usage, dict):
            self.usage = self.usage + Usage(**usage)


@dataclass(frozen=True, slots=True)
class Desk:
    """The filled sockets of one conversation."""

    app: App
    journal: Journal
    processes: Processes
    redactor: Redactor
    spent: Spent
    started: set[str] = field(default_factory=set)
    """The ids of cloud agents that were launched or adopted by this process."""

    @property
    def settings(self) -> BridgeSettings:
        """The table `[bridge]`."""
        return self.app.loaded.settings.bridge

    @property
    def budget(self) -> Budget:
        """What the conversation may use in all."""
        return Budget(launches=self.settings.launches, cost_usd=self.settings.cost_usd)

    def over_budget(self) -> str | None:
        """Which cap forbids one more launch, in the names of this table."""
        reason = self.budget.exceeded(self.spent.launches, self.spent.usage)
        return reason.replace("limits.", "bridge.") if reason else None

    def folder(self, name: str = "") -> Path:
        """A folder of this conversation's own."""
        return self.app.run_folder(self.journal.run.id) / name

    def agent(self, name: str, repository: str | None = None) -> Agent:
        """An agent; a cloud agent is told the repository, whatever its own options say."""
        agent = make_agent(
            name, with_repository(self.app, name, repository).loaded, self.processes, self.redactor
        )
        check_caps(self.budget, agent.can, name)
        return agent

    async def emit(self, kind: EventType, step: str | None = None, **data: object) -> None:
        """Emit an event of the bridge, without secrets."""
        await self.journal.emit(Event(kind, self.redactor.data(data)), step)


def with_repository(app: App, name: str, repository: str | None) -> App:
    """The same settings, with an agent that works on this hosted repository."""
    if repository is None or "repository" not in agent_class(name).Options.model_fields:
        return app
    settings = app.loaded.settings
    options = {**settings.agents.get(name, {}), "repository": repository}
    changed = settings.model_copy(update={"agents": {**settings.agents, name: options}})
    return replace(app, loaded=replace(app.loaded, settings=changed))
