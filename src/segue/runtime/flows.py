"""Which flow a run uses: the one that was chosen or is usual, with the phases that the settings ask for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from segue.config.load import LoadedSettings
from segue.domain.errors import UsageError
from segue.domain.job import Role
from segue.domain.text import suggest
from segue.flow.phase import PRESETS, Flow, Phase, make_flow, with_phase

if TYPE_CHECKING:
    from segue.config.settings import FlowSettings


_ASKED = ("command line", "environment")
"""Where somebody sets something for this run, not for all of a project."""


def check_flows(flows: Mapping[str, FlowSettings]) -> None:
    """Refuse flows of the settings that cannot work."""
    if not flows:
        return
    from segue.flow.phase import PHASES

    for name, flow in flows.items():
        if name in PRESETS:
            hint = "Choose another name; the flows that come with Segue stay as they are"
            raise UsageError(f"The flow {name!r} comes with Segue and cannot be redefined.", hint=hint)
        make_flow(name, flow.phases, PHASES)


def choose_flow(loaded: LoadedSettings, usual: str, planned: bool) -> Flow:
    """Return the flow for a run; `planned` when an agent plans the tasks. Raises UsageError."""
    from segue.flow.phase import PHASES

    settings = loaded.settings
    name = settings.flow or usual
    known = {**PRESETS, **{key: flow.phases for key, flow in settings.flows.items()}}
    if name not in known:
        raise UsageError(
            f"There is no flow {name!r}.{suggest(name, known)}", hint=f"Known flows: {', '.join(known)}"
        )
    flow = make_flow(name, known[name], PHASES)
    if flow.has("replan") and not planned:
        raise UsageError(
            f"The flow {name} does not fit: it replans, but no agent has planned the tasks of this source.",
            hint="`build` is for prompts; the others are for plans and features",
        )
    if settings.review.reviewer not in (None, "none"):
        flow = with_phase(flow, PHASES["review"])
    if settings.checks or settings.proof.scenarios:
        flow = with_phase(flow, PHASES["check"])
    if settings.proof.independent:
        flow = with_phase(flow, PHASES["independent"])
    if settings.judged_by is not None and settings.flow is None:
        flow = with_phase(flow, PHASES["verify"])
    for path, reason in _without_effect(loaded, flow, planned):
        raise UsageError(
            f"{path} (from {loaded.where(path)}) has no effect: {reason}.",
            hint=f"Leave it out, or choose a flow that uses it; this one is {' → '.join(flow.names)}",
        )
    return flow


def roles_of(flow: Flow, planned: bool, agent_judges: bool) -> list[Role]:
    """Return the roles that agents play in a flow; `planned` when an agent plans the tasks."""
    used = {phase.role for phase in _list_used(flow) if phase.role}
    used |= {Role.PLAN} if planned else set()
    if not agent_judges:
        used.discard(Role.VERIFY)
    if not planned:
        used.discard(Role.RESEARCH)
    return sorted(used)


def _list_used(flow: Flow) -> list[Phase]:
    """Return the phases of a flow, and those that happen within them."""
    from segue.flow.phase import PHASES

    return [one for one in PHASES.values() if flow.has(one.name) or any(map(flow.has, one.within))]


def _without_effect(loaded: LoadedSettings, flow: Flow, planned: bool) -> Iterator[tuple[str, str]]:
    """Find settings that would change nothing in this flow."""
    from segue.domain.events import PLAN_GATE  # whoever only looks does without it
    from segue.flow.phase import PHASES

    settings = loaded.settings
    asked = [path for path, origin in loaded.origins.items() if origin == _ASKED[0]]
    always = [path for path in ("judged_by",) if getattr(settings, path)]
    always += ["replan"] if loaded.origin("replan") != "default" else []
    always += ["review.reviewer"] if loaded.origin("review.reviewer") in _ASKED else []
    used = _list_used(flow)
    for phase in (one for one in PHASES.values() if one not in used):
        for path in (*always, *asked):
            if {path, path.partition(".")[0]} & set(phase.settings):
                yield path, f"the flow {flow.name} has no phase `{(*phase.within, phase.name)[0]}`"
    if settings.smoke and not planned:
        yield "smoke", "only steps that an agent has planned belong to a build phase"
    if PLAN_GATE in settings.gates and "gates" in asked and not planned:
        yield "gates", "the tasks are written down already"
    agent_judges = settings.judged_by in (None, "agent")
    roles = roles_of(flow, planned, agent_judges)
    for role in Role:
        path = f"roles.{role}"
        if loaded.origin(path) in _ASKED and role not in roles:
            yield path, f"no phase of the flow {flow.name} uses this role"
