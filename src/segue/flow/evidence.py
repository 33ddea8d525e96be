"""Done is a claim until there is evidence: what an attempt claimed, against what can be seen."""

from __future__ import annotations

from segue.domain.failure import Failure, FailureKind
from segue.domain.outcome import Outcome
from segue.domain.verdict import Action, Result, Verdict

RETRIED = {FailureKind.CRASH, FailureKind.RATE_LIMIT, FailureKind.NO_RESULT, FailureKind.TRUNCATED}
RETRIED |= {FailureKind.TIMEOUT, FailureKind.HANG, FailureKind.NO_CHANGE, FailureKind.LOST}
RETRIED |= {FailureKind.OUTAGE, FailureKind.MAX_TURNS}
RETRIED |= {FailureKind.UNKNOWN, FailureKind.INTERRUPTED, FailureKind.USAGE_LIMIT, FailureKind.REFUSED}
"""Failures that another attempt may overcome; a wrong key or a missing program will not go away."""

NO_CHANGE = "The agent said it was done, but nothing in the work tree or on the branch has changed."


def failure_of(outcome: Outcome, changed: bool, allow_no_change: bool) -> Failure | None:
    """Why the attempt failed in the light of the evidence; None when it holds."""
    if outcome.failure is not None:
        return outcome.failure
    if not changed and not allow_no_change:
        return Failure(FailureKind.NO_CHANGE, NO_CHANGE)
    return None


def verdict_of(failure: Failure | None, changed: bool) -> Verdict:
    """What follows."""
    if failure is None:
        return Verdict(Result.PASS, Action.PROCEED, "changed" if changed else "no change needed")
    partial = changed and failure.kind not in (FailureKind.NOT_STARTED, FailureKind.AUTH)
    action = Action.RETRY if failure.kind in RETRIED else Action.STOP
    return Verdict(Result.PARTIAL if partial else Result.FAIL, action, failure.message)
