"""What follows from a verdict: the policy table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from segue.domain.verdict import Action, Result, Verdict
from segue.flow.context import Building, RunContext
from segue.flow.state import PhaseEnd, TaskState


class Round(Struct, frozen=True):
    """A verdict that is not PROCEED, and everything around it."""

    context: RunContext
    building: Building
    state: TaskState
    verdict: Verdict

    @property
    def request(self) -> str:
        """What the judge asks for: what to search, which command to run, why the step is skipped."""
        return self.verdict.request or self.verdict.reason


class Resolution(Struct, frozen=True):
    """What an action brings: notes for the next attempt, or the end of the phase."""

    notes: str = ""
    end: PhaseEnd | None = None


async def retry(_now: Round) -> Resolution:
    """RETRY: send the agent back with what is missing; nothing else is needed."""
    return Resolution()


async def skip(now: Round) -> Resolution:
    """SKIP: leave the step out, with the judge's reason."""
    return Resolution(end=PhaseEnd(True, f"skipped: {now.request}", skipped=True))


async def modify(now: Round) -> Resolution:
    """MODIFY_PLAN: plan the rest again and end the step; it comes again if the new plan keeps it."""
    from segue.flow.phases.outline import may_replan, replan

    if not may_replan(now.context, now.building, now.state):
        limit = now.building.replans
        return Resolution(
            end=PhaseEnd(False, f"Replan limit ({limit}) reached. The judge says: {now.request}")
        )
    result = await replan(now.context, now.building, now.state, now.request, done=False)
    if not result.ok:
        return Resolution(end=PhaseEnd(False, f"no new plan: {result.output.verdict.reason}"))
    return Resolution(end=PhaseEnd(False, f"planned again: {now.request}", replanned=True))


async def search(now: Round) -> Resolution:
    """WEB_SEARCH: look something up; a search that fails is reported to the agent, which continues."""
    from segue.flow.actions.search import look_up

    return Resolution(await look_up(now))


async def diagnose(now: Round) -> Resolution:
    """RUN_DIAGNOSTIC: run a command that the judge asks for, if it is allowed."""
    from segue.flow.actions.diagnose import run_diagnostic

    return Resolution(await run_diagnostic(now))


ACTIONS: dict[Action, Callable[[Round], Awaitable[Resolution]]] = {
    Action.RETRY: retry,
    Action.WEB_SEARCH: search,
    Action.RUN_DIAGNOSTIC: diagnose,
    Action.SKIP: skip,
    Action.MODIFY_PLAN: modify,
}
"""Verdict → action. PROCEED needs none; what is not in the table counts as RETRY."""

COUNTED = (Action.RETRY, Action.WEB_SEARCH, Action.RUN_DIAGNOSTIC)
"""The actions that use up the resolutions of a task; replanning has a limit of its own."""


def what_follows(verdict: Verdict, spent: int, limit: int, chooses: bool = True) -> Action:
    """Return what follows from a verdict when the task was sent back `spent` times of at most `limit`.

    STOP: a person is needed. A judge that does not choose has one answer to work that is not done: RETRY.
    """
    if verdict.result is Result.PASS:
        return Action.PROCEED
    if verdict.action is Action.STOP:
        return Action.STOP
    action = verdict.action if chooses and verdict.action in ACTIONS else Action.RETRY
    return Action.STOP if action in COUNTED and spent >= limit else action
