"""The parts of one conversation: its journal, its processes, its settings and its usage so far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from segue.config.bridge import BridgeSettings
from segue.domain.budget import Budget
from segue.domain.event import Event, EventType
from segue.domain.outcome import Usage
from segue.domain.run import Step
from segue.flow.start import check_caps
from segue.notify.notification import Notification
from segue.notify.options import Kind
from segue.notify.send import notify
from segue.ports import Agent, Journal
from segue.runtime.wiring import App, agent_class, make_agent
from segue.system.process.processes import Processes
from segue.system.redact import Redactor

LAUNCHING = ("turn", "subagent")
"""The phases of steps that launch an agent."""


@dataclass(slots=True)
class ConversationUsage:
    """The launches and tokens of a conversation so far, over all its processes."""

    launches: int = 0
    usage: Usage = field(default_factory=Usage)

    @classmethod
    def count(cls, steps: Iterable[Step]) -> ConversationUsage:
        """Count the launches of these steps."""
        used = cls()
        for step in steps:
            if step.phase in LAUNCHING:
                used.launches += 1
                used.add(step.output)
        return used

    def add(self, output: dict[str, Any]) -> None:
        """Add the usage of one launch, given the output of its step."""
        usage = output.get("usage")
        if isinstance(usage, dict):
            self.usage = self.usage + Usage(**usage)


@dataclass(frozen=True, slots=True)
class ConversationContext:
    """The parts of one conversation."""

    app: App
    journal: Journal
    processes: Processes
    redactor: Redactor
    used: ConversationUsage
    started: set[str] = field(default_factory=set)
    """The ids of cloud agents that this process launched or adopted."""

    @property
    def settings(self) -> BridgeSettings:
        """The table `[bridge]`."""
        return self.app.loaded.settings.bridge

    @property
    def budget(self) -> Budget:
        """The limits of the whole conversation."""
        return Budget(launches=self.settings.launches, cost_usd=self.settings.cost_usd)

    def check_budget(self) -> str | None:
        """Return the limit that forbids another launch, under its name in `[bridge]`; None if none does."""
        reason = self.budget.exceeded(self.used.launches, self.used.usage)
        return reason.replace("limits.", "bridge.") if reason else None

    def folder(self, name: str = "") -> Path:
        """Return a folder that belongs to this conversation."""
        return self.app.run_folder(self.journal.run.id) / name

    def make_agent(self, name: str, repository: str | None = None) -> Agent:
        """Make an agent; a cloud agent works on `repository`, whatever its own options say."""
        app = _with_repository(self.app, name, repository)
        agent = make_agent(name, app.loaded, self.processes, self.redactor)
        check_caps(self.budget, agent.can, name)
        return agent

    async def emit(self, kind: EventType, step: str | None = None, **data: object) -> None:
        """Emit an event without secrets."""
        await self.journal.emit(Event(kind, self.redactor.data(data)), step)


def _with_repository(app: App, name: str, repository: str | None) -> App:
    """Return the same settings, with the agent's repository replaced."""
    if repository is None or "repository" not in agent_class(name).Options.__struct_fields__:
        return app
    settings = app.loaded.settings
    options = {**settings.agents.get(name, {}), "repository": repository}
    changed = msgspec.structs.replace(settings, agents={**settings.agents, name: options})
    return replace(app, loaded=replace(app.loaded, settings=changed))


async def notify_people(app: App, kind: Kind, title: str, text: str) -> list[str]:
    """Send a notification through the configured notifiers; return what went wrong."""
    redact = app.redactor().text
    return await notify(app.loaded.settings.notify, Notification(kind, redact(title), redact(text)))
