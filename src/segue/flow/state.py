"""What is known of a task while it is carried from phase to phase."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from segue.domain.verdict import Verdict
from segue.domain.workspace import Snapshot
from segue.flow.context import Player


@dataclass(slots=True)
class Carried:
    """One task on its way."""

    base: Snapshot
    """The work tree before the first attempt: all evidence is measured from here."""
    now: Snapshot
    """What the last launch or commit left."""
    plan: str | None = None
    session: str | None = None
    agent: str | None = None
    """Whose conversation that is."""
    summary: str = ""
    """What the agent says it did."""
    verdict: Verdict | None = None
    commit: str | None = None
    launches: int = 0
    searches: int = 0
    """Launches that looked something up; `replans` those that looked at the plan again."""
    replans: int = 0
    remaining: int = 0
    """Findings that a reviewer still reports."""

    @property
    def head(self) -> str:
        """The commit the work stands on now."""
        return self.now.head

    def session_for(self, player: Player) -> str | None:
        """The conversation this player can go on with."""
        mine = player.agent.name == self.agent and player.agent.can.follow_up
        return self.session if mine else None

    def arrived(self, output: dict[str, Any]) -> None:
        """Take over what a launch has left, from what its step wrote down."""
        self.now = Snapshot(output["head"], output["branch"], "")
        self.session = output["session"]
        self.agent = output["agent"]
        self.summary = output["text"]


@dataclass(frozen=True, slots=True)
class PhaseEnd:
    """How a phase ended."""

    ok: bool
    reason: str = ""
    skipped: bool = False
    replanned: bool = False
    """The rest of the plan was made anew, this task with it."""
