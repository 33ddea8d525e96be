"""What a flow works with: the sockets, filled, and the policy in one place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from segue.domain.budget import Budget
from segue.domain.event import Event, EventType
from segue.domain.evidence import CheckResult
from segue.domain.finding import DismissReason, Finding
from segue.domain.job import Limits
from segue.domain.outcome import Usage
from segue.domain.role import ROLE_OF, Role
from segue.domain.run import Step, StepState
from segue.ports import Agent, Journal, Judge, Outline, Reviewer, Searcher, Source, Workspace

FLOWS: dict[str, tuple[str, ...]] = {
    "execute": ("execute",),
    "review": ("execute", "review"),
    "plan": ("plan", "execute", "review"),
    "spec": ("execute", "verify"),
    "build": ("execute", "verify", "replan"),
}
"""How a task is carried: the phases of each flow, in order."""

LAUNCHING = tuple(ROLE_OF)
"""The phases that launch an agent; a judge may verify and a service may search without one."""

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
    limits: Limits = Limits()
    budget: Budget = Budget()


@dataclass(frozen=True, slots=True)
class Player:
    """An agent in a role, with the model it should use."""

    agent: Agent
    model: str | None = None

    @property
    def name(self) -> str:
        """How people call it: the agent, and the model if one is named."""
        return player_name(self.agent.name, self.model)


def player_name(agent: str, model: str | None) -> str:
    """`agent`, or `agent:model`."""
    return f"{agent}:{model}" if model else agent


Cast = Mapping[Role, Sequence[Player]]
"""Who plays each role: the preferred one first, then those to fall back on."""


@dataclass(slots=True)
class Spent:
    """What the run has used and reached so far, counted over all its attempts."""

    launches: int = 0
    usage: Usage = field(default_factory=Usage)
    branch: str | None = None
    """The branch of the last task that was done: the next one builds on it."""
    replans: int = 0
    resting: dict[str, float] = field(default_factory=dict)
    """Players that cannot work, and until when: the others take over."""
    limited: dict[str, float] = field(default_factory=dict)
    """Until when they said so themselves."""

    @classmethod
    def of(cls, steps: list[Step]) -> Spent:
        """Count what earlier processes used."""
        spent = cls()
        for step in steps:
            if step.phase in LAUNCHING and launched_agent(step):
                spent.launches += 1
                spent.replans += step.phase == "replan"
                spent.add_usage(step.output)
                spent.add_limit(step)
            elif step.phase == "end" and step.state is StepState.DONE:
                spent.branch = step.output.get("branch")
        return spent

    def add_limit(self, step: Step) -> None:
        """Remember until when an agent said it cannot work."""
        until = (step.output.get("failure") or {}).get("until")
        if until is not None:
            name = player_name(step.agent or "", step.model)
            self.resting[name] = self.limited[name] = until

    def add_usage(self, output: dict[str, Any]) -> None:
        """Count what one launch used, from what its step wrote down."""
        usage = output.get("usage")
        if isinstance(usage, dict):
            self.usage = self.usage + Usage(**usage)


def launched_agent(step: Step) -> bool:
    """Whether a step launched an agent: judges and search services are not sent a prompt of ours."""
    return "prompt" in step.input or "exit_code" in step.output


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
class Examined:
    """What was found out about a whole project."""

    check: CheckResult
    found: dict[str, Any]
    decides: bool
    """Whether a verdict may rest on it; if not, it could not be tried out here."""


Examine = Callable[[Path], Awaitable[Examined | None]]
"""Examines a folder; None when it does not apply."""


@dataclass(frozen=True, slots=True)
class Verifying:
    """Who decides whether a task is done, from which checks, and how often the agent is sent back."""

    judge: Judge | None
    """None: an agent judges, in the role `verify`."""
    checks: tuple[tuple[str, ...], ...]
    run_check: RunCheck
    resolutions: int
    smoke: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    """Further checks for the steps of a build phase."""
    examine: Examine | None = None
    """Looks at a whole project, such as its row level security."""


@dataclass(frozen=True, slots=True)
class Building:
    """What only the flow that builds from one prompt uses."""

    outline: Outline
    searcher: Searcher | None
    """A search service; without one an agent searches."""
    diagnostics: tuple[str, ...]
    """The beginnings of the commands a judge may ask for."""
    run_diagnostic: RunCheck
    replan: Literal["caveats", "always", "never"]
    replans: int
    """How often the plan may be looked at again in one run."""


@dataclass(frozen=True, slots=True)
class Kit:
    """The filled sockets of one run."""

    journal: Journal
    source: Source
    cast: Cast
    workspace: Workspace
    policy: Policy
    spent: Spent
    redact: Callable[[str], str] = str
    reviewing: Reviewing | None = None
    verifying: Verifying | None = None
    building: Building | None = None

    @property
    def cloud(self) -> bool:
        """Whether the agents that edit work elsewhere: all of them do, or none."""
        return self.cast[Role.EXECUTE][0].agent.can.cloud

    @property
    def needs_commits(self) -> bool:
        """Whether every phase must be committed, because a reviewer or the judge looks at commits."""
        reviewed = self.reviewing is not None and self.reviewing.reviewer.needs_commit
        return reviewed or self.verifying is not None

    async def emit(self, kind: EventType, step: str | None = None, /, **data: object) -> int:
        """Emit an event of the flow and return its number."""
        return (await self.journal.emit(Event(kind, data), step)).seq
