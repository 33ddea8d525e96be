"""What a flow works with: the filled sockets of one run, and the policy in one place."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field

from segue.domain.events import Event
from segue.domain.job import Role
from segue.domain.proof import CheckResult, Level
from segue.domain.results import WorkNote
from segue.domain.scenario import Scenario
from segue.domain.task import Task, TaskKind
from segue.domain.verdict import Evidence, Verdict
from segue.domain.workspace import Workspace
from segue.flow.agents import AgentChain, Launcher, Series, chain_from, make_ladder
from segue.flow.lanes import Seat, Seats
from segue.flow.launch import Attempts
from segue.flow.phase import Flow, Phase
from segue.flow.state import TaskState
from segue.ports import Judge, Outline, Reviewer, Source
from segue.view.run import RunView

if TYPE_CHECKING:
    from segue.proof.independent import DetachedTests
    from segue.proof.repo_hooks import CommitHooks
    from segue.proof.seal import Sealer
    from segue.store.journal import Journal
    from segue.system.git.aside import WorkAside
    from segue.system.git.branches import RemoteLane
    from segue.system.git.integration import Integration
    from segue.system.git.lanes import LaneTree


class Policy(Struct, frozen=True):
    """What the flow may and must do."""

    commit: Literal["task", "phase", "never"] = "task"
    allow_no_change: bool = False
    continue_after_failure: bool | None = False
    """Whether tasks are run that do not depend on one that needs a human; None: not by cloud agents, each of
    which starts from the branch of the one before."""
    max_failures: int | None = None
    """Failed tasks in a row after which the run stops nevertheless."""
    require: Level | None = None
    """The least level of proof that a task must reach; None: what the checks and the judge say is enough."""
    kinds: Mapping[str, TaskKind] = field(default_factory=dict)
    """The kinds that the user gave to tasks, by key or pattern."""
    independent: bool = False
    """Whether somebody who never sees the work writes tests for it."""
    exam_rounds: int = 2
    """How often more independent tests are asked for than the first ones of a task."""
    exam_cost: float | None = None
    """US dollars that the independent tests of a task may cost before no more are asked for."""
    gates: tuple[str, ...] = ()
    """Where the run waits for a person: after a `checkpoint`, after each `task`."""
    handover_bytes: int = 4096
    """How much an agent is told of earlier tasks; 0: nothing."""
    escalate: bool = False
    """Whether the next agent of the chain takes over when the work is refused."""
    resolutions: int = 2
    """How often a task that fails its checks or its verification is sent back to the agent."""


class Reviewing(Struct, frozen=True):
    """Who reviews, and what follows from the findings."""

    reviewer: Reviewer
    max_rounds: int
    on_remaining: Literal["warn", "fail"]
    on_failure: Literal["fail", "retry_once", "skip"]


RunCommand = Callable[[Sequence[str], Path], Awaitable[tuple[int | None, str]]]
"""Runs a command in a folder: its exit code (None: it could not be run) and its output."""


class Examination(Struct, frozen=True):
    """What was found out about a whole project."""

    check: CheckResult
    found: dict[str, Any]
    decides: bool
    """Whether a verdict may rest on it; if not, it could not be tried out here."""


Examine = Callable[[Path], Awaitable[Examination | None]]
"""Examines a folder; None when it does not apply."""


class Checking(Struct, frozen=True):
    """The commands whose failure keeps a task from being done."""

    commands: tuple[tuple[str, ...], ...]
    sealer: Callable[[], Sealer]
    """Returns what runs them out of the agent's reach; it is built when it is needed first."""
    smoke: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    """Further checks for the steps of a build phase."""
    examine: Examine | None = None
    """Looks at a whole project, such as its row level security."""
    scenarios: tuple[Scenario, ...] = ()
    """What the settings say that the finished program must do."""
    known_failures: tuple[str, ...] = ()
    """Globs of tests and commands that may fail, by the user's word."""
    hooks: CommitHooks | None = None
    """None: the repository's own hooks are not run."""


ReadVerdict = Callable[[str, Task, Evidence], Verdict]
"""Reads an answer about the criteria of a task, given the evidence; raises UnusableAnswer."""


class Judging(Struct, frozen=True):
    """Who decides whether a task is done."""

    judge: Judge | None
    """None: an agent judges, in the role `verify`."""
    read: ReadVerdict
    """Reads the answer of an agent that judges."""
    decides_contests: bool = True
    """Whether it can say if a task asks for a changed test; the checks themselves cannot."""


class Building(Struct, frozen=True):
    """What only the flow that builds from one prompt uses."""

    outline: Outline
    diagnostics: tuple[str, ...]
    """The beginnings of the commands a judge may ask for."""
    run_diagnostic: RunCommand
    replan: Literal["caveats", "always", "never"]
    replans: int
    """How often the plan may be reconsidered in one run."""


class Survey(Struct):
    """The checks on what the run begins with, while they run; `flow/survey.py` begins and awaits them."""

    patience: float = 30.0
    """Seconds that the first launch waits for them; then they run beside it, if they are known to end."""
    is_timed: bool = False
    """Whether earlier runs have shown that they end well within `check_timeout`."""
    work: asyncio.Task[None] | None = None


class Lane(Struct, frozen=True):
    """One of the lanes of a run, while a task is worked on in it."""

    number: int
    tree: LaneTree | RemoteLane
    """A work tree of its own, or a branch on the remote for cloud agents."""
    branch: Integration
    """The branch on which the work of all lanes comes together."""
    seats: Seats
    seat: Seat
    checking: Checking
    """Checks what several tasks have made together."""


class RunContext(Struct, frozen=True):
    """The filled sockets of one run."""

    flow: Flow
    journal: Journal
    source: Source
    agents: Mapping[Role, AgentChain]
    workspace: Workspace
    policy: Policy
    launcher: Launcher
    view: RunView
    """What the run has done so far; every event of the journal is applied to it."""
    checking: Checking
    stronger: Mapping[TaskKind, AgentChain] = field(default_factory=dict)
    """Who takes over when the work is refused, by the kind of the task."""
    redact: Callable[[str], str] = str
    reviewing: Reviewing | None = None
    judging: Judging | None = None
    building: Building | None = None
    testing: DetachedTests | None = None
    """Where independent tests are written, out of sight of the work."""
    resumed_by_person: bool = False
    """Whether the run had ended and waited for a person before this session."""
    earlier: dict[str, WorkNote] = field(default_factory=dict)
    """What tasks did, in this run of the source and before it, by task."""

    touched: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The files that tasks changed in earlier attempts, done or not, where several are worked on at once."""
    contract: Mapping[str, str] = field(default_factory=dict)
    """Where agents work elsewhere: the files that they have no say in, by path, each with what it is."""
    survey: Survey = field(default_factory=Survey)
    """What was red before the first launch of this session."""
    lane: Lane | None = None
    """Where the task is worked on, beside others; None: one task at a time."""
    aside: WorkAside | None = None
    """Keeps what failed tasks leave in the work tree that they share; None: there is none."""

    @property
    def cloud(self) -> bool:
        """Whether the agents that edit work elsewhere: all of them do, or none."""
        return self.agents[Role.EXECUTE][0].agent.can.cloud

    @property
    def seed(self) -> str:
        """What the codes of the markers follow from, so that the prompts of a run begin alike."""
        return self.journal.run.id

    @property
    def worker(self) -> str:
        """The name of the agent that does the work, if it can."""
        return self.agents[Role.EXECUTE][0].agent.name

    @property
    def needs_commits(self) -> bool:
        """Whether every phase must be committed, because a reviewer or the judge looks at commits."""
        reviewed = self.reviewing is not None and self.reviewing.reviewer.needs_commit
        return reviewed or self.judging is not None

    def comments(self, task: str) -> tuple[str, ...]:
        """Return what people said about a task since it was done last; its agent gets to read it."""
        return tuple(map(self.redact, self.view.comments.get(task, {}).values()))

    def attempts(
        self,
        phase: Phase,
        state: TaskState,
        *,
        role: Role | None = None,
        least: int = 1,
        retry_recorded: bool = False,
    ) -> Attempts:
        """Return the attempts at a phase of a task, to be made in a loop; at `least` so many may fail.

        `role` is who makes them, where that is not the phase's own.
        """
        role = role or phase.role
        assert role is not None
        is_work = role is Role.EXECUTE and phase.edits
        series = Series(
            chain=self._workers(state) if is_work else self.agents[role],
            task=state.task.key,
            phase=phase.name,
            folder=state.folder,
            about=state.task if phase.edits else None,
            build_phase=state.task.build_phase,
            attempts=max(self.launcher.attempts, least),
            retry_recorded=retry_recorded,
        )
        return Attempts(self.launcher, series, state.launched)

    def ladder(self, task: Task) -> AgentChain:
        """Return who may do a task, the weakest first; nobody where nobody stronger takes over."""
        stronger = self.stronger.get(task.kind, ())
        return make_ladder(self.agents[Role.EXECUTE], stronger, self.policy.escalate)

    def _workers(self, state: TaskState) -> AgentChain:
        chain, ladder = self.agents[Role.EXECUTE], self.ladder(state.task)
        return chain_from(ladder, chain, state.rung) if ladder else chain

    async def emit(self, event: Event, step: str | None = None) -> int:
        """Emit an event and return its number."""
        return (await self.journal.emit(event, step)).seq


class Lanes(Struct, frozen=True):
    """The lanes of a run in which several tasks are worked on at once."""

    seats: Seats
    """What limits how many."""
    open: Callable[[RunContext, int, Seat], Awaitable[RunContext]]
    """Returns the context in which a lane works; its work tree is made if need be."""
