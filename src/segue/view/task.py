"""One task of a run as its events show it."""

from __future__ import annotations

from msgspec import Struct, field

from segue.domain.events import TaskEnded
from segue.domain.outcome import Usage
from segue.domain.proof import Proof
from segue.domain.statement import describe_proof, name_level
from segue.domain.task import TaskKind
from segue.domain.verdict import Result


def is_pass(proof: Proof) -> bool:
    """Return whether PASS may be said: evidence proves the task, not a person's word."""
    return proof.level.proven and not proof.is_accepted


class TaskView(Struct):
    """One task of a run, or with an empty key the planning before the first one."""

    key: str
    title: str
    state: str = "pending"
    """pending, running, parked, blocked, done, skipped, replanned, needs_human or stopped."""
    phase: str = ""
    agent: str = ""
    """Who works on it, or worked on it last, as `name` or `name:model`."""
    attempts: int = 0
    """Launches of agents for this task, in every phase."""
    kind: TaskKind | None = None
    """What it asks for; None before it began."""
    verdict: str | None = None
    """FAIL or PARTIAL as last concluded; PASS only when it is done and proven."""
    proof: Proof | None = None
    """The evidence that it is done; None: it is not, or an older version did not record any."""
    measured: Proof | None = None
    """What was measured at its last end, also if it was not done: a person who accepts it keeps that."""
    tampering: int = 0
    """How many things an agent changed that decide whether its work counts."""
    blocked_by: tuple[str, ...] = ()
    """The tasks that must be done before it can begin."""
    waits_for: tuple[str, ...] = ()
    """The tasks whose end lets it begin, while others are worked on; `waits_why` says why."""
    waits_why: str = ""
    lane: int = 0
    """The lane it is, or was last, worked on in; 0: the run works on one task at a time."""
    collisions: int = 0
    """How often its work did not fit what others had merged meanwhile."""
    merged: str | None = None
    """What the branch of the run was at when it had this task's work."""
    merge_seconds: float = 0.0
    """How long merging it took."""
    stuck: str = ""
    """What its agent does over and over, while it seems stuck."""
    reason: str = ""
    branch: str | None = None
    agent_id: str | None = None
    """The vendor's id of the cloud agent that worked on it last."""
    url: str | None = None
    """The page of that agent."""
    commit: str | None = None
    kept: str | None = None
    """The ref under which its unfinished work was put aside; None: it is where it was done."""
    remaining: int = 0
    """Review findings that are still open."""
    started: int | None = None
    ended: int | None = None
    wake: float | None = None
    """When it continues, while it is parked."""
    usage: Usage = field(default_factory=Usage)
    over_budget: str = ""
    """By how much it used more than a cap allows; empty: it did not."""
    work_ms: int = 0
    """Time spent working on it: not between sessions, not while waiting for a usage limit."""

    @property
    def seconds(self) -> float | None:
        """How long it was worked on; None before it began."""
        return None if self.started is None else self.work_ms / 1000

    @property
    def conclusion(self) -> str:
        """What is known about its work, in words that follow the level of proof; empty: nothing yet."""
        if self.proof is None:
            return self.verdict or ""
        if self.verdict == Result.PARTIAL:
            return f"{self.verdict} ({name_level(self.proof)})"
        return describe_proof(self.proof)

    @property
    def cloud_agent(self) -> str:
        """Where to find its cloud agent, in words; empty: it has none."""
        place = f" on branch {self.branch}" if self.branch else ""
        return (
            f"cloud agent {self.agent_id}{place}{f': {self.url}' if self.url else ''}"
            if self.agent_id
            else ""
        )

    @property
    def waits(self) -> str:
        """What it waits for and why, in words; empty: for nothing."""
        return f"waits for {', '.join(self.waits_for)}: {self.waits_why}" if self.waits_for else ""


def end_state(event: TaskEnded) -> str:
    """Return the state of a task that has ended."""
    if event.skipped:
        return "skipped"
    if event.done:
        return "done"
    return "replanned" if event.replanned else "needs_human"


def end_verdict(event: TaskEnded, last: str | None) -> str | None:
    """Return the verdict on a task that is done: PASS is said only of what is proven."""
    if event.remaining:
        return Result.PARTIAL.value
    passed = event.proof is not None and is_pass(event.proof) and not event.skipped
    return Result.PASS.value if passed else last
