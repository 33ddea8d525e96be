"""What follows from the way a launch failed: who else may do better, and what a person can do."""

from __future__ import annotations

from segue.domain.outcome import Failure, FailureKind

UNABLE = {FailureKind.USAGE_LIMIT, FailureKind.RATE_LIMIT, FailureKind.AUTH, FailureKind.OUTAGE}
UNABLE |= {FailureKind.NOT_STARTED, FailureKind.HANG}
"""Failures for which an agent or its service is to blame, not the work: it rests, and others take over."""

_SAME_AGAIN = {FailureKind.REFUSED, FailureKind.CONTEXT, FailureKind.TRUNCATED, FailureKind.OUTPUT_LIMIT}
_OWN_ATTEMPTS = {FailureKind.NO_CHANGE, FailureKind.NO_RESULT, FailureKind.UNKNOWN}

_ADVICE = {
    FailureKind.REFUSED: "Reword the task",
    FailureKind.CONTEXT: "Split the task",
    FailureKind.TRUNCATED: "Split the task",
    FailureKind.OUTPUT_LIMIT: "Split the task",
    FailureKind.NOT_STARTED: "Check the agent and its model (segue doctor)",
    FailureKind.HANG: "Try again later",
}


def may_go_elsewhere(failure: Failure, is_last_attempt: bool) -> bool:
    """Return whether another agent is asked: at once where this one would end in the same way again."""
    return failure.kind in _SAME_AGAIN or (failure.kind in _OWN_ATTEMPTS and is_last_attempt)


def advise(failure: Failure) -> str:
    """Return what happened, and what a person can do where no agent is left."""
    advice = _ADVICE.get(failure.kind)
    if advice is None:
        return failure.message
    said = failure.message.rstrip()
    stop = "" if said.endswith((".", "!", "?")) else "."
    return f"{said}{stop} {advice}, or name another agent to fall back on: --agent FIRST,SECOND"
