"""A job: what an agent is asked to do, where, how, within which limits, and for which role."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct, field

from segue.domain.text import suggest


class Prompt(Struct, frozen=True):
    """The finished text sent to an agent."""

    text: str

    @property
    def digest(self) -> str:
        """The name under which the text is stored once, and the only part of it that logs show."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class Mode(StrEnum):
    """What the agent may do."""

    PLAN = "plan"
    EDIT = "edit"
    ASK = "ask"


class Limits(Struct, frozen=True):
    """What one launch may use. Seconds and bytes."""

    wall: float = 1800.0
    idle: float = 600.0
    grace: float = 3.0
    output_bytes: int = 2 * 1024**3
    kept_bytes: int = 1024**2
    patience: float = 0.0
    """How long to wait for a service that is away; 0: that is a failure of the launch."""
    stuck: float = 0.0
    """How long it may turn in circles after that was noticed; 0: as long as it likes."""
    cost_usd: float | None = None
    """Dollars it may cost, for agents that can be told; None: as many as it likes."""


class Job(Struct, frozen=True):
    """One launch of an agent. Running a job again with the same token adopts the first launch."""

    token: str
    prompt: Prompt
    workspace: Path
    mode: Mode = Mode.EDIT
    model: str | None = None
    session: str | None = None
    base: str | None = None
    web: bool = False
    """Whether an agent that may not edit may look things up on the web."""
    limits: Limits = Limits()
    hear: Callable[[str], None] | None = None
    """Takes what the agent says while it says it, piece by piece, where somebody listens."""
    begun: bool = False
    """Whether another process began it: its agent may be at work, and is paid for."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """`run`, `task`, `phase`, `attempt`: given to the agent's process as SEGUE_* variables."""


class Role(StrEnum):
    """What an agent is launched for."""

    PLAN = "plan"
    EXECUTE = "execute"
    ADDRESS = "address"
    TEST = "test"
    VERIFY = "verify"
    RESEARCH = "research"


class AgentChoice(Struct, frozen=True):
    """An agent by name, with the model it should use; None: its own default."""

    agent: str
    model: str | None = None

    @property
    def name(self) -> str:
        """`agent`, or `agent:model`."""
        return f"{self.agent}:{self.model}" if self.model else self.agent


def read_chain(text: str, model: str | None = None) -> tuple[AgentChoice, ...]:
    """Read `claude:opus,codex`: agents in the order in which they are tried; raises ValueError.

    `model` is for those that name none.
    """
    choices = []
    for piece in text.split(","):
        agent, colon, named = piece.strip().partition(":")
        if not agent or (colon and not named.strip()):
            what = "no model" if agent else "no agent"
            raise ValueError(f"{text!r} names {what}; write NAME, NAME:MODEL or a list with commas")
        choices.append(AgentChoice(agent.strip(), named.strip() or model))
    return tuple(choices)


def read_agent_options(given: Sequence[str]) -> tuple[str | None, dict[str, str]]:
    """Read `--agent`, given several times: the agents for everything, and those for single roles."""
    everything, roles = None, {}
    for choice in given:
        role, equals, names = choice.partition("=")
        if not equals:
            everything = choice
        elif role.strip() in list(Role):
            read_chain(names)
            roles[role.strip()] = names.strip()
        else:
            name = role.strip()
            raise ValueError(f"{name!r} is not a role.{suggest(name, Role)} The roles are {', '.join(Role)}")
    return everything, roles
