"""The parts of one conversation: its journal, its settings, and how its agents are launched."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from segue.domain.events import AgentStarted, Event
from segue.domain.notification import Notification, NotificationKind
from segue.domain.outcome import Budget, Outcome
from segue.domain.results import LaunchOutput, StepResult
from segue.features.bridge.options import BridgeSettings, bridge_settings
from segue.features.notify.observer import make_notifiers
from segue.features.notify.options import NotifySettings
from segue.features.notify.send import notify
from segue.flow.agents import ChosenAgent, Launcher, Series
from segue.flow.evidence import verdict_after
from segue.flow.launch import Attempts, LaunchRequest
from segue.ports import Agent
from segue.runtime.app import App
from segue.runtime.ready import check_caps
from segue.runtime.wiring import make_agent, with_repository
from segue.system.process.processes import Processes

if TYPE_CHECKING:
    from segue.store.journal import Journal


class ConversationContext(Struct, frozen=True):
    """The parts of one conversation."""

    app: App
    journal: Journal
    launcher: Launcher
    processes: Processes
    started: set[str] = field(default_factory=set)
    """The ids of cloud agents that this process launched or adopted."""

    @property
    def settings(self) -> BridgeSettings:
        """The table `[bridge]`."""
        return bridge_settings(self.app.loaded.settings)

    def folder(self, name: str = "") -> Path:
        """Return a folder that belongs to this conversation."""
        return self.app.run_folder(self.journal.run.id) / name

    def make_agent(self, name: str, repository: str | None = None) -> Agent:
        """Make an agent; a cloud agent works on `repository`, whatever its own options say."""
        app = with_repository(self.app, name, repository)
        agent = make_agent(name, app.loaded, app.services(self.processes))
        check_caps(self.launcher.budget, agent.can, name)
        return agent

    async def emit(self, event: Event, step: str | None = None) -> None:
        """Emit an event."""
        await self.journal.emit(event, step)


def conversation_budget(settings: BridgeSettings) -> Budget:
    """Return the limits of a whole conversation."""
    return Budget(launches=settings.launches, cost_usd=settings.cost_usd)


async def notify_people(app: App, kind: NotificationKind, title: str, text: str) -> list[str]:
    """Send a notification through the configured notifiers; return what went wrong."""
    notification = Notification(kind, title, text)
    on = app.loaded.settings.part("notify", NotifySettings).on
    return await notify(make_notifiers(app), notification, app.redactor(), on)


After = Callable[[Outcome], Awaitable[tuple[str, ...]]]
"""Work to do after the agent, in the same step; returns the branches with the agent's work."""


async def launch_agent(
    context: ConversationContext,
    key: str,
    phase: str,
    by: ChosenAgent,
    request: LaunchRequest,
    after: After | None = None,
    *,
    again: bool = False,
) -> StepResult[LaunchOutput]:
    """Launch the agent; launch it again after an interruption and after a usage limit has passed.

    `key` is the folder of the attempts in the journal. `again`: retry a failure that was recorded earlier.
    Raises OverBudget.
    """
    series = Series(
        chain=(by,), task="", label=key, phase="launch", kind=phase, folder=key, retry_recorded=again
    )
    attempts = Attempts(context.launcher, series, {})
    async for attempt in attempts:
        facts = TurnFacts(context.started)
        async with attempt.launch(request, facts.hear) as outcome:
            branches = await after(outcome) if after else outcome.branches
            attempt.output = LaunchOutput(
                verdict=verdict_after(outcome.failure),
                failure=outcome.failure,
                text=outcome.text,
                branches=branches,
                agent_id=facts.agent_id,
                url=facts.url,
            )
    return attempts.result


class TurnFacts:
    """Which agent works on a turn, and where it can be watched."""

    def __init__(self, started: set[str]) -> None:
        """`started` gets the ids of the agents that report one."""
        self._started = started
        self.agent_id: str | None = None
        self.url: str | None = None

    def hear(self, event: Event) -> None:
        """Take note of an event."""
        if isinstance(event, AgentStarted):
            self.agent_id, self.url = event.agent_id or self.agent_id, event.url or self.url
            self._started.update(filter(None, [self.agent_id]))
