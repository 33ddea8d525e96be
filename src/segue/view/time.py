"""Time as sums of steps: how long at least one was under way, and what launches used."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from segue.domain.outcome import Usage

AGENTS, PROVING = "agents", "proving"


class Clock(Struct):
    """Counts the time during which at least one step is under way, in milliseconds."""

    ms: int = 0
    since: int | None = None
    """Since when a step is under way."""
    steps: set[str] = field(default_factory=set)

    def begin(self, step: str, ts: int) -> None:
        """Begin a step."""
        self.since = ts if self.since is None else self.since
        self.steps.add(step)

    def end(self, step: str, ts: int) -> None:
        """End a step."""
        self.steps.discard(step)
        if not self.steps and self.since is not None:
            self.ms += max(0, ts - self.since)
            self.since = None

    def seconds(self, now: float) -> float:
        """Return what was counted until now."""
        since = max(0.0, now * 1000 - self.since) if self.since is not None else 0.0
        return (self.ms + since) / 1000


class StepView(Struct):
    """A step: what it is, whether it is under way, and what its launch used."""

    phase: str = ""
    agent: str = ""
    proves: bool = False
    began: int | None = None
    """Since when it is under way; None: it is not."""
    launched: bool = False
    usage: Usage | None = None
    """What it used, as last reported."""

    @property
    def kind(self) -> str:
        """What its time counts as: agents, proving or neither."""
        return AGENTS if self.agent else PROVING if self.proves else ""


def total_usage(steps: Iterable[StepView]) -> Usage:
    """Return what launches used together."""
    return sum((step.usage for step in steps if step.usage is not None), Usage())
