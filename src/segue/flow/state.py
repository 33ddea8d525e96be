"""What is known of a task while it goes from phase to phase."""

from __future__ import annotations

from msgspec import Struct, field

from segue.domain.proof import CheckResult, IndependentTests, Proof
from segue.domain.results import HookOutput, LaunchOutput
from segue.domain.task import Task
from segue.domain.verdict import Verdict
from segue.domain.workspace import Collision, Snapshot
from segue.flow.launch import ChosenAgent


class TaskState(Struct):
    """One task on its way."""

    task: Task
    base: Snapshot
    """The work tree before the first attempt: all evidence is measured from here."""
    now: Snapshot
    """What the last launch or commit left."""
    plan: str | None = None
    session: str | None = None
    agent: str | None = None
    """The agent that the session belongs to."""
    summary: str = ""
    """What the agent says it did."""
    verdict: Verdict | None = None
    commit: str | None = None
    checks: tuple[CheckResult, ...] = ()
    """What the checks last said."""
    hooked: HookOutput | None = None
    """What the repository's own hooks last said."""
    checked: bool = False
    """Whether the checks were content with the work as it is now."""
    judged: bool = False
    """Whether those who judge found every criterion met."""
    independent: IndependentTests | None = None
    """Tests by somebody who never saw the work; the checks run them too."""
    passed_without: str = ""
    """The tree that the checks were content with before there were independent tests."""
    dropped: set[str] = field(default_factory=set)
    """Independent tests that were found to be wrong."""
    upheld: set[str] = field(default_factory=set)
    """Independent tests that were found to be right."""
    mutants: tuple[int, int] | None = None
    """How many mutants of the changed lines were tried, and how many the checks noticed."""
    notes: list[str] = field(default_factory=list)
    """Why the proof is not stronger."""
    proof: Proof | None = None
    tree: str = ""
    """The git tree that was checked last."""
    story_base: Snapshot | None = None
    """What the task's story began with, for the task that ends it."""
    remaining: int = 0
    """Findings that a reviewer still reports."""
    files: tuple[str, ...] = ()
    """What the work has changed, as the last launch has shown."""
    launched: dict[str, int] = field(default_factory=dict)
    """The number of the last attempt, by phase."""
    resolutions: int = 0
    """How often the agent was sent back."""
    seen: int = 0
    """In a lane: what tasks have done that ended before this instant is part of the base; 0: all of it is."""
    round: int = 1
    """How often the work was begun: again when it did not fit what others had merged meanwhile."""
    collision: Collision | None = None
    """What the work did not fit, when it was begun again."""
    merges: bool = False
    """Whether the agent is asked to merge two versions that are both in the work tree."""

    @property
    def head(self) -> str:
        """The commit the work is at now."""
        return self.now.head

    @property
    def folder(self) -> str:
        """Where its steps are in the journal."""
        return f"task/{self.task.key}"

    def next_number(self, phase: str) -> int:
        """Return the number of the next attempt at a phase."""
        return self.launched.get(phase, 0) + 1

    def session_for(self, by: ChosenAgent) -> str | None:
        """Return the conversation that this agent can continue."""
        own = by.agent.name == self.agent and by.agent.can.follow_up
        return self.session if own else None

    def begin_again(self, base: Snapshot, seen: int, collision: Collision, merges: bool) -> None:
        """Begin the work once more, on top of what it did not fit."""
        self.base = self.now = base
        self.seen = seen
        self.collision, self.merges = collision, merges
        self.round += 1
        self.verdict = self.commit = self.mutants = self.proof = None
        self.checks, self.checked, self.judged, self.hooked = (), False, False, None
        self.tree = self.passed_without = ""
        self.remaining = self.resolutions = 0

    def take(self, output: LaunchOutput) -> None:
        """Take over what a launch has left."""
        self.now = Snapshot(output.head, output.branch, "")
        self.checked = self.judged = False
        self.session = output.session
        self.agent = output.agent
        self.summary = output.text
        self.files = output.files


class PhaseEnd(Struct, frozen=True):
    """How a phase ended."""

    ok: bool
    reason: str = ""
    skipped: bool = False
    replanned: bool = False
    """The rest of the plan was made again, this task with it."""
