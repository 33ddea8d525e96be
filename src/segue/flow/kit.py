"""What a flow works with: the sockets, filled, and the policy in one place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from segue.domain.budget import Budget
from segue.domain.event import Event, EventType
from segue.domain.finding import DismissReason, Finding
from segue.domain.job import Limits
from segue.domain.outcome import Usage
from segue.domain.run import Step, StepState
from segue.ports import Agent, Journal, Judge, Reviewer, Source, Workspace

FLOWS: dict[str, tuple[str, ...]] = {
    "execute": ("execute",),
    "review": ("execute", "review"),
    "plan": ("plan", "execute", "review"),
    "spec": ("execute", "verify"),
}
"""How a task is carried: the phases of each flow, in order."""

LAUNCHING = ("plan", "execute", "address", "resolve")
"""The phases that launch an agent."""

MAX_PARKS = 5
"""How often one task may wait for a usage limit to end before a person is asked."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What the flow may and must do."""

    flow: str = "execute"
    attempts: int = 1
    commit: Literal["task", "phase", "never"] = "task"
    allow_no_change: bool = False
    go_on: bool = False
    """Whether the next task is carried when one needs a human."""
    max_failures: int | None = None
    """Failed tasks in a row after which the run stops all the same."""
    model: str | None = None
    limits: Limits = Limits()
    budget: Budget = Budget()


@dataclass(slots=True)
class Spent:
    """What the run has used and reached so far, counted over all its attempts."""

    launches: int = 0
    usage: Usage = field(default_factory=Usage)
    branch: str | None = None
    """The branch of the last task that was done: the next one builds on it."""

    @classmethod
    def of(cls, steps: list[Step]) -> Spent:
        """Count what earlier processes used."""
        spent = cls()
        for step in steps:
            if step.phase in LAUNCHING:
                spent.launches += 1
                spent.add_usage(step.output)
            elif step.phase == "end" and step.state is StepState.DONE:
                spent.branch = step.output.get("branch")
        return spent

    def add_usage(self, output: dict[str, Any]) -> None:
        """Count what one launch used, from what its step wrote down."""
        usage = output.get("usage")
        if isinstance(usage, dict):
            self.usage = self.usage + Usage(**usage)


Triage = Callable[[Sequence[Finding]], tuple[list[Finding], list[tuple[Finding, DismissReason]]]]
"""Parts findings into those to address and those dismissed by the user's patterns."""


@dataclass(frozen=True, slots=True)
class Reviewing:
    """Who reviews, and what follows from what is found."""

    reviewer: Reviewer
    triage: Triage
    max_rounds: int
    on_remaining: Literal["warn", "fail"]
    on_failure: Literal["fail", "retry_once", "skip"]


RunCheck = Callable[[Sequence[str], Path], Awaitable[tuple[int | None, str]]]
"""Runs a command in a folder: its exit code (None: it could not be run) and its output."""


@dataclass(frozen=True, slots=True)
class Verifying:
    """Who decides whether a task is done, from which checks, and how often the agent is sent back."""

    judge: Judge
    checks: tuple[tuple[str, ...], ...]
    run_check: RunCheck
    resolutions: int


@dataclass(frozen=True, slots=True)
class Kit:
    """The filled sockets of one run."""

    journal: Journal
    source: Source
    agent: Agent
    workspace: Workspace
    policy: Policy
    spent: Spent
    redact: Callable[[str], str] = str
    reviewing: Reviewing | None = None
    verifying: Verifying | None = None

    @property
    def needs_commits(self) -> bool:
        """Whether every phase must be committed, because a reviewer or the judge looks at commits."""
        reviewed = self.reviewing is not None and self.reviewing.reviewer.needs_commit
        return reviewed or self.verifying is not None

    async def emit(self, kind: EventType, step: str | None = None, **data: object) -> int:
        """Emit an event of the flow and return its number."""
        return (await self.journal.emit(Event(kind, data), step)).seq
