"""Roles: each may be played by another agent and model, with others to fall back on."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from segue.domain.nearest import suggest


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
