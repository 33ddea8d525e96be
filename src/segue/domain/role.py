"""Who does what: each role may be played by another agent and model, with others to fall back on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What an agent is launched for."""

    PLAN = "plan"
    EXECUTE = "execute"
    ADDRESS = "address"
    VERIFY = "verify"
    RESEARCH = "research"


ROLE_OF = {
    "outline": Role.PLAN,
    "plan": Role.PLAN,
    "replan": Role.PLAN,
    "execute": Role.EXECUTE,
    "resolve": Role.EXECUTE,
    "address": Role.ADDRESS,
    "verify": Role.VERIFY,
    "search": Role.RESEARCH,
}
"""The phases that launch an agent, and the role it plays in each."""


@dataclass(frozen=True, slots=True)
class Part:
    """An agent with the model it should use; None: its own default."""

    agent: str
    model: str | None = None


def parts_of(text: str, model: str | None = None) -> tuple[Part, ...]:
    """Read `claude:opus,codex`: agents in the order in which they are tried; raises ValueError.

    `model` is for those that name none.
    """
    parts = []
    for piece in text.split(","):
        agent, _, named = piece.strip().partition(":")
        if not agent:
            raise ValueError(f"{text!r} names no agent; write NAME, NAME:MODEL or a list with commas")
        parts.append(Part(agent.strip(), named.strip() or model))
    return tuple(parts)


def read_choices(choices: Sequence[str]) -> tuple[str | None, dict[str, str]]:
    """What `--agent` says, given several times: the agents for everything, and those for single roles."""
    everything, roles = None, {}
    for choice in choices:
        role, equals, names = choice.partition("=")
        if not equals:
            everything = choice
        elif role.strip() in list(Role):
            parts_of(names)
            roles[role.strip()] = names.strip()
        else:
            raise ValueError(f"{role.strip()!r} is no role; the roles are {', '.join(Role)}")
    return everything, roles
