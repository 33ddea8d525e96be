"""Phases and flows as data: what a phase is, and which phases a flow runs a task through."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from segue.domain.errors import UsageError
from segue.domain.job import Role
from segue.domain.text import suggest

if TYPE_CHECKING:
    from segue.flow.context import RunContext
    from segue.flow.state import PhaseEnd, TaskState

RunPhase = Callable[["RunContext", "TaskState"], Awaitable["PhaseEnd"]]


class Phase(Struct, frozen=True):
    """One kind of step in the life of a task."""

    name: str
    label: str
    """How people read it: `Execute`."""
    role: Role | None = None
    """The role of the agent it launches; None: it launches none."""
    edits: bool = False
    """Whether its agent changes files."""
    run: RunPhase | None = None
    """Runs a task through the phase; None: it happens within another phase and is in no flow."""
    after: tuple[str, ...] = ()
    """The phases it comes after; a flow must have the first of them before it."""
    within: tuple[str, ...] = ()
    """The phases in which it happens."""
    settings: tuple[str, ...] = ()
    """Settings and tables that nothing else uses."""


class Flow(Struct, frozen=True):
    """A list of phases that every task of a run goes through."""

    name: str
    phases: tuple[Phase, ...]

    def has(self, name: str) -> bool:
        """Return whether a phase is in the flow."""
        return any(phase.name == name for phase in self.phases)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its phases."""
        return tuple(phase.name for phase in self.phases)


PRESETS: Mapping[str, tuple[str, ...]] = {
    "execute": ("execute", "check"),
    "review": ("execute", "check", "review"),
    "plan": ("plan", "execute", "check", "review"),
    "spec": ("execute", "check", "verify"),
    "build": ("execute", "check", "verify", "replan"),
}
"""The flows that come with Segue; users add theirs under `[flows.NAME]`."""


_HINT = "Correct its list of phases in the settings: [flows.NAME] phases = […]"


def make_flow(name: str, phases: Sequence[str], known: Mapping[str, Phase]) -> Flow:
    """Return a flow of these phases; raises UsageError when they do not make one."""
    place = f"The flow {name!r}"
    for phase in phases:
        if phase not in known or known[phase].run is None:
            names = [one.name for one in known.values() if one.run is not None]
            raise UsageError(
                f"{place} names an unknown phase {phase!r}.{suggest(phase, names)}",
                hint=f"Known phases: {', '.join(names)}",
            )
    if len(set(phases)) < len(phases):
        raise UsageError(f"{place} names a phase twice: {', '.join(phases)}.", hint=_HINT)
    if "execute" not in phases:
        raise UsageError(f"{place} has no phase `execute`: nothing would be done.", hint=_HINT)
    for number, phase in enumerate(phases):
        before = known[phase].after[:1]
        if any(name not in phases[:number] for name in before):
            raise UsageError(f"{place}: the phase {phase!r} must come after {before[0]!r}.", hint=_HINT)
        if not before and number > phases.index("execute"):
            raise UsageError(f"{place}: the phase {phase!r} must come before 'execute'.", hint=_HINT)
    return Flow(name, tuple(known[phase] for phase in phases))


def with_phase(flow: Flow, phase: Phase) -> Flow:
    """Return the flow with one more phase, behind the last of those it comes after."""
    if flow.has(phase.name):
        return flow
    place = max(number for number, one in enumerate(flow.phases) if one.name in phase.after)
    return Flow(flow.name, (*flow.phases[: place + 1], phase, *flow.phases[place + 1 :]))
