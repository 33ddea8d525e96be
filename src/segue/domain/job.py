"""A job: what an agent is asked to do, where, how, and within which limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path

from msgspec import Struct, field

from segue.domain.prompt import Prompt


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
    labels: Mapping[str, str] = field(default_factory=dict)
    """`run`, `task`, `phase`, `attempt`: given to the agent's process as SEGUE_* variables."""
