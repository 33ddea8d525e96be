"""The commands an agent may print, as values, and how each one is written on a line."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from msgspec import Struct, field

ACTION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
"""The name of an action: never a path, an option or a second line."""

KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,49}")


class Subagent(Struct, frozen=True):
    """Launch an agent on another repository."""

    repo: str
    prompt: str
    agent: str | None = None
    model: str | None = None
    branch: str | None = None
    """The branch to start from."""
    wait: bool | None = None
    """True if the follow-up waits for its end; None: as configured."""


class LocalAction(Struct, frozen=True):
    """Run one of the relay's actions on the user's machine."""

    action: str
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Remind:
    """Send a message at a given time."""

    when: datetime
    message: str
    said: str = dataclasses.field(default="", compare=False)
    """The time as the agent wrote it: `in 30m`, read again later, is still the same reminder."""


class WebhookResult(Struct, frozen=True):
    """Confirm a result of a subagent, or ask for its full text."""

    agent_id: str
    status: str


AgentCommand = Subagent | LocalAction | Remind | WebhookResult


def serialise(command: AgentCommand) -> str:
    """Return the line that parses back to the command; raise ValueError if a value has a line break."""
    line = _write(command)
    if re.search(r"[\r\n]", line):
        raise ValueError("a command is one line: no value may contain a line break")
    return line


def hash_command(command: AgentCommand) -> str:
    """Return a hash that is the same for the same command, whenever it is read."""
    if isinstance(command, Remind):
        said = " ".join(command.said.lower().split()) or _format_time(command.when)
        words = f"REMIND: {said}, {command.message}"
    else:
        words = _write(command)
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _write(command: AgentCommand) -> str:
    match command:
        case Subagent():
            return f"SUBAGENT: {_join(_subagent_pairs(command))}"
        case LocalAction():
            return f"LOCAL_ACTION: {', '.join(filter(None, (command.action, _join(command.parameters))))}"
        case Remind():
            return f"REMIND: {_format_time(command.when)}, {command.message}"
        case WebhookResult():
            return f"WEBHOOK_RESULT: agent_id={command.agent_id}, status={command.status}"


def _subagent_pairs(command: Subagent) -> dict[str, str]:
    """Return the pairs of the line. The prompt comes last: it takes the rest of the line."""
    wait = None if command.wait is None else str(command.wait).lower()
    pairs = {"repo": command.repo, "agent": command.agent, "model": command.model, "branch": command.branch}
    return {name: v for name, v in {**pairs, "wait": wait, "prompt": command.prompt}.items() if v is not None}


def _join(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _format_time(when: datetime) -> str:
    return when.astimezone(UTC).isoformat().replace("+00:00", "Z")
