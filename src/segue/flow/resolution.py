"""What the actions that follow a verdict work with, and what they bring."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from segue.domain.task import Task
from segue.domain.verdict import Verdict
from segue.flow.context import Building, Kit
from segue.flow.state import Carried, PhaseEnd


@dataclass(frozen=True, slots=True)
class Round:
    """A verdict that is not PROCEED, and everything around it."""

    kit: Kit
    building: Building
    task: Task
    carried: Carried
    verdict: Verdict
    number: int


@dataclass(frozen=True, slots=True)
class Resolution:
    """What an action brought: notes for the next attempt, or the end of the phase."""

    notes: str = ""
    end: PhaseEnd | None = None


Handler = Callable[[Round], Awaitable[Resolution]]
