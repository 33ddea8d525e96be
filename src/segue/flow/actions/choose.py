"""Let chance decide what follows a failed verdict, so that the effect of each action can be measured."""

from __future__ import annotations

import random

from msgspec.structs import replace

from segue.domain.diagnostic import find_refusal, parse
from segue.domain.job import Role
from segue.domain.results import ChoiceOutput, StepResult
from segue.domain.verdict import Action
from segue.flow.actions import COUNTED, Round
from segue.flow.phase import Phase
from segue.ports import StepFacts

CHOICE = Phase("choice", "Choose by chance", within=("verify",))


async def choose(now: Round) -> Round:
    """Return the round with the action that chance chose, or as it is where the judge decides."""
    wished, state = now.verdict.action, now.state
    is_spent = state.resolutions >= now.context.policy.resolutions
    if now.building.resolve != "random" or is_spent or wished is Action.SKIP:
        return now
    number = state.launched[CHOICE.name] = state.next_number(CHOICE.name)
    key = f"{state.folder}/{CHOICE.name}/{number}"
    seed = f"{now.context.journal.run.id}/{key}{_after_replans(now)}"

    async def work(_token: str) -> StepResult[ChoiceOutput]:
        eligible = list_eligible(now)
        action = random.Random(seed).choice(eligible)  # noqa: S311 - it must be repeatable, not secret
        return StepResult(True, ChoiceOutput(action, wished, tuple(eligible), seed))

    facts = StepFacts(state.task.key, CHOICE.name, number, build_phase=state.task.build_phase)
    found = (await now.context.journal.step(key, ChoiceOutput, work, facts=facts)).output
    request = now.verdict.request if found.action is wished else ""
    return replace(now, verdict=replace(now.verdict, action=found.action, request=request))


def _after_replans(now: Round) -> str:
    """Return what sets the choices of a task that a new plan has kept apart from its earlier ones."""
    from segue.flow.phases.outline import REPLAN

    replans = now.context.view.phases[REPLAN.name]
    return f"/after/{replans}" if replans else ""


def list_eligible(now: Round) -> list[Action]:
    """List the actions that are possible now: a command needs the judge's request, the others do not."""
    from segue.flow.phases.outline import may_replan

    possible = {
        Action.RETRY: True,
        Action.WEB_SEARCH: now.building.searcher is not None or Role.RESEARCH in now.context.agents,
        Action.RUN_DIAGNOSTIC: now.verdict.action is Action.RUN_DIAGNOSTIC and _is_allowed(now),
        Action.MODIFY_PLAN: may_replan(now.context, now.building, now.state),
    }
    return [action for action in (*COUNTED, Action.MODIFY_PLAN) if possible[action]]


def _is_allowed(now: Round) -> bool:
    try:
        argv = parse(now.verdict.request)
    except ValueError:
        return False
    return not find_refusal(argv, now.building.diagnostics)
