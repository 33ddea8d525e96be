"""The commands that an agent may print, as values, and how each one is written on its line."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

ACTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""What an action may be called: nothing that could be a path, an option or a line of its own."""

KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,49}")


@dataclass(frozen=True, slots=True)
class Subagent:
    """Launch an agent on another repository."""

    repo: str
    prompt: str
    agent: str | None = None
    model: str | None = None
    branch: str | None = None
    """The branch to start from."""
    wait: bool | None = None
    """Whether the follow-up waits for its end; None: as configured."""


@dataclass(frozen=True, slots=True)
class LocalAction:
    """Have the relay on the user's machine run one of its actions."""

    action: str
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Remind:
    """Send a message at an instant."""

    when: datetime
    message: str
    said: str = field(default="", compare=False)
    """The instant as the agent wrote it: `in 30m` read again later is still the same reminder."""


@dataclass(frozen=True, slots=True)
class WebhookResult:
    """The agent confirms what it was told about a subagent, or asks for the whole of it."""

    agent_id: str
    status: str


@dataclass(frozen=True, slots=True)
class Extension:
    """A further command that somebody has registered, with its payload."""

    keyword: str
    payload: Mapping[str, Any]


Command = Subagent | LocalAction | Remind | WebhookResult | Extension


def serialise(command: Command) -> str:
    """The line that reads back as the command; ValueError when a value does not fit on a line."""
    line = _written(command)
    if re.search(r"[\r\n]", line):
        raise ValueError("a command is one line: no value may hold a line break")
    return line


def identity(command: Command) -> str:
    """The same for the same command, whenever it is read."""
    if isinstance(command, Remind):
        words = (
            f"REMIND: {' '.join(command.said.lower().split()) or _instant(command.when)}, {command.message}"
        )
    else:
        words = _written(command)
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _written(command: Command) -> str:
    match command:
        case Subagent():
            return f"SUBAGENT: {_pairs(_subagent(command))}"
        case LocalAction():
            return f"LOCAL_ACTION: {', '.join(filter(None, (command.action, _pairs(command.parameters))))}"
        case Remind():
            return f"REMIND: {_instant(command.when)}, {command.message}"
        case WebhookResult():
            return f"WEBHOOK_RESULT: agent_id={command.agent_id}, status={command.status}"
        case Extension():
            payload = json.dumps(command.payload, ensure_ascii=False, sort_keys=True)
            return f"{command.keyword}: {payload}"


def _subagent(command: Subagent) -> dict[str, str]:
    """The prompt comes last: it takes the rest of the line."""
    wait = None if command.wait is None else str(command.wait).lower()
    pairs = {"repo": command.repo, "agent": command.agent, "model": command.model, "branch": command.branch}
    return {name: v for name, v in {**pairs, "wait": wait, "prompt": command.prompt}.items() if v is not None}


def _pairs(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _instant(when: datetime) -> str:
    return when.astimezone(UTC).isoformat().replace("+00:00", "Z")
