"""What is known of a task while it is carried from phase to phase."""

from __future__ import annotations

from dataclasses import dataclass

from segue.domain.workspace import Snapshot


@dataclass(slots=True)
class Carried:
    """One task on its way."""

    base: Snapshot
    """The work tree before the first attempt: all evidence is measured from here."""
    head: str = ""
    """The commit the work tree stands on now."""
    plan: str | None = None
    commit: str | None = None
    launches: int = 0
    remaining: int = 0
    """Findings that a reviewer still reports."""


@dataclass(frozen=True, slots=True)
class PhaseEnd:
    """How a phase ended."""

    ok: bool
    reason: str = ""
