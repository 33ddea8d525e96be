"""What the steps of a conversation store, typed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from segue.domain.results import Output
from segue.features.bridge.grammar import SkippedLine


class SayOutput(Output, frozen=True):
    """What the agent is shown in a turn."""

    items: tuple[str, ...] = ()
    messages: str = ""
    results: str = ""
    actions: tuple[str, ...] = ()
    """The relay's actions, where the agent is shown the protocol."""


class ReplyOutput(Output, frozen=True):
    """The agent's reply, and the commands in it."""

    now: float = 0.0
    text: str = ""
    lines: tuple[str, ...] = ()
    skipped: tuple[SkippedLine, ...] = ()
    skipped_count: int = 0


class CommandOutput(Output, frozen=True):
    """The result of a command; `facts` depend on the command, and an action may return any."""

    status: str = ""
    facts: dict[str, Any] = {}

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> CommandOutput:
        """Read what was stored; version 1 stored the facts beside the status."""
        if "facts" in stored or len(stored) < 2:
            return msgspec.convert(stored, cls)
        return cls(str(stored.get("status", "")), {k: v for k, v in stored.items() if k != "status"})

    @property
    def flat(self) -> dict[str, Any]:
        """Status and facts together, for the agent and for programs."""
        return {"status": self.status, **self.facts}


class MessageOutput(Output, frozen=True):
    """A message of a person, or a webhook that came in."""

    kind: str = "message"
    text: str = ""
    agent_id: str = ""
    status: str = ""
    repo: str = ""
    branch: str = ""
    delivery: str = ""
    timestamp: str = ""
    conversation: str | None = None
    known: bool = False
    """Whether this conversation launched the agent itself."""


class ReminderInput(Output, frozen=True):
    """The words of a reminder that is due."""

    message: str = ""


class ReminderOutput(Output, frozen=True):
    """What went wrong when people were notified."""

    problems: tuple[str, ...] = ()


class CompletionOutput(Output, frozen=True):
    """Why a report could not be delivered; empty: it was."""

    problem: str = ""


class InboxOutput(Output, frozen=True):
    """How many deliveries were taken in one step."""

    taken: int = 0
