"""The events of conversations."""

from __future__ import annotations

from typing import Any, ClassVar

from segue.domain.events import Event


class BridgeTurn(Event, frozen=True):
    """The agent of a conversation gets a message."""

    type: ClassVar[str] = "bridge.turn"
    turn: int
    items: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return one line for people."""
        return f"turn {self.turn} of the conversation"


class BridgeCommand(Event, frozen=True):
    """A command in the agent's reply."""

    type: ClassVar[str] = "bridge.command"
    command: str
    line: str

    def describe(self) -> str:
        """Return one line for people."""
        return f"command: {self.line}"


class BridgeSkipped(Event, frozen=True):
    """A line of the reply that is not a command."""

    type: ClassVar[str] = "bridge.skipped"
    line: int
    text: str
    reason: str

    def describe(self) -> str:
        """Return one line for people."""
        return f"line {self.line} is not a command: {self.reason}"


class BridgeResult(Event, frozen=True):
    """The result of a command; `details` depend on the command: a subagent, an action, a reminder."""

    type: ClassVar[str] = "bridge.result"
    rest: ClassVar[str] = "details"
    command: str
    status: str
    reason: str = ""
    branch: str | None = None
    details: dict[str, Any] = {}

    def describe(self) -> str:
        """Return one line for people."""
        return f"{self.status} {self.reason or self.branch or ''}".rstrip()


class BridgeReminder(Event, frozen=True):
    """A reminder is stored, or sent."""

    type: ClassVar[str] = "bridge.reminder"
    command: str
    due: float
    message: str
    told: bool = False

    def describe(self) -> str:
        """Return one line for people."""
        return f"reminder {'sent' if self.told else 'set'}: {self.message}"


class BridgeWebhook(Event, frozen=True):
    """A webhook came in or went out."""

    type: ClassVar[str] = "bridge.webhook"
    rest: ClassVar[str] = "details"
    agent_id: str = ""
    status: str = ""
    direction: str = "in"
    outcome: str = ""
    delivery: str = ""
    details: dict[str, Any] = {}

    def describe(self) -> str:
        """Return one line for people."""
        return f"webhook {self.direction}: {self.agent_id} {self.outcome}"
