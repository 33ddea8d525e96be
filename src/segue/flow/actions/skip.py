"""SKIP: the step is left out, with the judge's reason."""

from __future__ import annotations

from segue.flow.resolution import Resolution, Round
from segue.flow.state import PhaseEnd


async def skip(now: Round) -> Resolution:
    """End the phase; the step is marked as skipped."""
    reason = now.verdict.request or now.verdict.reason
    return Resolution(end=PhaseEnd(True, f"skipped: {reason}", skipped=True))
