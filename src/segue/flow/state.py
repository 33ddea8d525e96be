"""What is known of a task while it goes from phase to phase: what several phases share, and nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from segue.domain.proof import CheckResult, IndependentTests, Proof
from segue.domain.results import HookOutput, LaunchOutput
from segue.domain.task import Task
from segue.domain.verdict import Verdict
from segue.domain.workspace import Collision, Snapshot
from segue.flow.agents import ChosenAgent


class Start(Struct, frozen=True):
    """What the work began with: once, or again when it did not fit what others had merged meanwhile."""

    base: Snapshot
    """The work tree before the first attempt: all evidence is measured from here."""
    round: int = 1
    """How often the work was begun."""
    seen: int = 0
    """In a lane: what tasks have done that ended before this instant is part of the base; 0: all of it is."""
    collision: Collision | None = None
    """What the work did not fit, when it was begun again."""
    merges: bool = False
    """Whether the agent is asked to merge two versions that are both in the work tree."""


class LastLaunch(Struct, frozen=True):
    """What the last agent that edits has left."""

    session: str | None = None
    """Its conversation, for agents that can continue one."""
    agent: str | None = None
    """Who had that conversation."""
    summary: str = ""
    """What the agent says it did."""
    files: tuple[str, ...] = ()
    """What the work has changed."""


class OwnTests(Struct, frozen=True):
    """The independent tests of the task, and what was decided about them (`flow/disputes.py`)."""

    tests: IndependentTests | None = None
    """Tests by somebody who never saw the work; the checks run them too."""
    passed_without: str = ""
    """The tree that the checks were content with before there were independent tests."""
    dropped: frozenset[str] = frozenset()
    """Tests that were found to be wrong."""
    upheld: frozenset[str] = frozenset()
    """Tests that were found to be right, or that the agent was sent back for."""
    rounds: int = 0
    """How often their writer was asked."""
    told_at: str = ""
    """The tree for which the agent was last told what fails: if it leaves that as it is, it insists."""
    contradicted: frozenset[str] = frozenset()
    """Tests that the work still contradicts, and nobody could decide who is right."""
    repeats: bool = False
    """Whether they ask for nothing but examples that the worker sees."""


class TaskState(Struct):
    """One task on its way."""

    task: Task
    start: Start
    now: Snapshot
    """What the last launch or commit left."""
    last: LastLaunch = LastLaunch()
    plan: str | None = None
    verdict: Verdict | None = None
    checks: tuple[CheckResult, ...] = ()
    """What the checks last said."""
    tree: str = ""
    """The git tree that was checked last."""
    checked: bool = False
    """Whether the checks were content with the work as it is now."""
    judged: bool = False
    """Whether those who judge found every criterion met."""
    hooked: HookOutput | None = None
    """What the repository's own hooks last said."""
    own_tests: OwnTests = OwnTests()
    notes: list[str] = field(default_factory=list)
    """Why the proof is not stronger."""
    brought: list[str] = field(default_factory=list)
    """What searches and commands that a judge asked for have brought."""
    remaining: int = 0
    """Findings that a reviewer still reports."""
    launched: dict[str, int] = field(default_factory=dict)
    """The number of the last attempt, by phase."""
    resolutions: int = 0
    """How often the agent was sent back."""
    exam: asyncio.Task[Any] | None = None
    """The first independent tests, while they are written beside the work (`flow/exam.py`)."""
    rung: int = 0
    """The place of who does it now among those who may, the weakest first (`flow/escalation.py`)."""
    demanded: list[str] = field(default_factory=list)
    """What checks, judges and reviewers asked for on the way."""
    tried: list[str] = field(default_factory=list)
    """Who tried before, and why that was refused."""
    told_of_tests: bool = False
    """Whether it was sent back for old tests that it changed unasked: that is done once."""

    @property
    def base(self) -> Snapshot:
        """What the work began with."""
        return self.start.base

    @property
    def head(self) -> str:
        """The commit the work is at now."""
        return self.now.head

    @property
    def folder(self) -> str:
        """Where its steps are in the journal."""
        return f"task/{self.task.key}"

    def count(self, phase: str) -> int:
        """Count another attempt at a phase, and return its number."""
        self.launched[phase] = self.next_number(phase)
        return self.launched[phase]

    def next_number(self, phase: str) -> int:
        """Return the number of the next attempt at a phase."""
        return self.launched.get(phase, 0) + 1

    def session_for(self, by: ChosenAgent) -> str | None:
        """Return the conversation that this agent can continue."""
        own = by.agent.name == self.last.agent and by.agent.can.follow_up
        return self.last.session if own else None

    def begin_again(self, start: Start) -> None:
        """Begin the work once more, on top of what it did not fit."""
        self.start, self.now = start, start.base
        self.verdict = self.hooked = None
        self.checks, self.checked, self.judged = (), False, False
        self.tree, self.own_tests = "", replace(self.own_tests, passed_without="")
        self.remaining = self.resolutions = 0

    def take(self, output: LaunchOutput) -> None:
        """Take over what a launch has left."""
        self.now = Snapshot(output.head, output.branch, "")
        self.checked = self.judged = False
        self.last = LastLaunch(output.session, output.agent, output.text, output.files)


class PhaseEnd(Struct, frozen=True):
    """How a phase ended, or all of them."""

    ok: bool
    reason: str = ""
    skipped: bool = False
    replanned: bool = False
    """The rest of the plan was made again, this task with it."""
    proof: Proof | None = None
    """How well the task is proven, once all phases have ended."""
