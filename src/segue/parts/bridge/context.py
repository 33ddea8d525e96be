"""The parts of one conversation: its journal, its launcher and its settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from segue.domain.budget import Budget
from segue.domain.events import Event
from segue.domain.notification import Notification, NotificationKind
from segue.flow.agents import Launcher
from segue.notify.send import notify
from segue.parts.bridge.options import BridgeSettings, bridge_settings
from segue.ports import Agent
from segue.runtime.app import App
from segue.runtime.plan import check_caps
from segue.runtime.wiring import make_agent, make_notifiers, with_repository
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
    return await notify(make_notifiers(app), notification, app.redactor(), app.loaded.settings.notify.on)
