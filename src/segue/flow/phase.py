"""Phases and flows as data: what a phase is, all that there are, and which ones a flow runs a task through.

This table is the only place that enumerates phases; `flow/task.py` says which function runs each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from segue.domain.errors import UsageError
from segue.domain.job import Role
from segue.domain.text import suggest


class Phase(Struct, frozen=True):
    """One kind of step in the life of a task."""

    name: str
    label: str
    """How people read it: `Execute`."""
    role: Role | None = None
    """The role of the agent it launches; None: it launches none."""
    edits: bool = False
    """Whether its agent changes files."""
    in_flows: bool = False
    """Whether a flow may name it; others happen within another phase."""
    after: tuple[str, ...] = ()
    """The phases it comes after; a flow must have the first of them before it."""
    within: tuple[str, ...] = ()
    """The phases in which it happens."""
    settings: tuple[str, ...] = ()
    """Settings and tables that nothing else uses."""


OUTLINE = Phase("outline", "Plan the steps", Role.PLAN)
PLAN = Phase("plan", "Plan", Role.PLAN, in_flows=True)
EXECUTE = Phase("execute", "Execute", Role.EXECUTE, edits=True, in_flows=True)
CHECK = Phase("check", "Check", in_flows=True, after=("execute",))
REVIEW = Phase("review", "Review", in_flows=True, after=("execute", "check"), settings=("review",))
ADDRESS = Phase("address", "Address findings", Role.ADDRESS, edits=True, within=("review",))
VERIFY = Phase(
    "verify",
    "Verify",
    Role.VERIFY,
    in_flows=True,
    after=("execute", "check", "review", "independent"),
    settings=("judged_by", "judge"),
)
SEARCH = Phase("search", "Search", Role.RESEARCH, within=("verify",))
DIAGNOSTIC = Phase("diagnostic", "Diagnostic", within=("verify",))
RESOLVE = Phase(
    "resolve", "Fix", Role.EXECUTE, edits=True, within=("check", "verify"), settings=("limits.resolutions",)
)
REPLAN = Phase(
    "replan", "Replan", Role.PLAN, in_flows=True, after=("verify",), settings=("replan", "limits.replans")
)
INDEPENDENT = Phase(
    "independent", "Test independently", Role.TEST, in_flows=True, after=("execute", "check", "review")
)
EXAM = Phase("exam", "Check the independent tests", within=("independent",))
CONTEST = Phase("contest", "Decide about changed tests", within=("check",))
DISPUTE = Phase("dispute", "Decide about independent tests", within=("check",))
LACK = Phase("lack", "Say what the proof lacks", within=("check",))
MERGE = Phase("merge", "Merge", after=("execute",))

PHASES: dict[str, Phase] = {
    phase.name: phase
    for phase in (
        *(OUTLINE, PLAN, EXECUTE, CHECK, REVIEW, ADDRESS, VERIFY, SEARCH, DIAGNOSTIC, RESOLVE, REPLAN),
        *(INDEPENDENT, EXAM, CONTEST, DISPUTE, LACK, MERGE),
    )
}
"""Every phase by name: first those that most tasks go through, in their order."""


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
        if phase not in known or not known[phase].in_flows:
            names = [one.name for one in known.values() if one.in_flows]
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
