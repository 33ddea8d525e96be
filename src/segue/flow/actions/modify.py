"""MODIFY_PLAN: the steps that remain, this one among them, are planned anew."""

from __future__ import annotations

from segue.flow.phases.outline import may_replan, replan
from segue.flow.resolution import Resolution, Round
from segue.flow.state import PhaseEnd


async def modify(now: Round) -> Resolution:
    """Plan the rest anew and end the step; it comes again if the new plan keeps it."""
    reason = now.verdict.request or now.verdict.reason
    if not may_replan(now.kit, now.building, now.task, now.carried):
        return Resolution(end=PhaseEnd(False, f"the plan was looked at too often; the judge says: {reason}"))
    result = await replan(now.kit, now.building, now.task, now.carried, reason, done=False)
    if not result.ok:
        return Resolution(end=PhaseEnd(False, f"no new plan: {result.output['verdict']['reason']}"))
    return Resolution(end=PhaseEnd(False, f"planned anew: {reason}", replanned=True))
