"""Say in plain words why a cloud run failed."""

from __future__ import annotations

import time

from segue.agents.cursor_cloud.api import RunSnapshot, Status
from segue.agents.cursor_cloud.errors import UNREACHABLE, CloudError
from segue.agents.local.values import clip
from segue.domain.classify import classify
from segue.domain.failure import Failure, FailureKind

TIMEOUT = Failure(
    FailureKind.TIMEOUT, "the cloud agent did not finish within its time limit and was cancelled"
)
HANG = Failure(FailureKind.HANG, "the cloud agent did nothing for too long and was cancelled")
INTERRUPTED = Failure(FailureKind.INTERRUPTED, "the cloud agent was cancelled by Segue")
LOST = Failure(FailureKind.LOST, "the cloud agent or its run is gone: deleted, or not visible with this key")

BY_US = {"timeout": TIMEOUT, "hang": HANG, "interrupted": INTERRUPTED}
"""Why we have cancelled a run, by the note that is kept until its outcome is stored."""

_EXPIRED = "Cursor let the run expire: that is its own time limit, not one of Segue's"
_MESSAGE_CHARS = 500


def judge_end(snapshot: RunSnapshot, cancelled: str) -> Failure | None:
    """Return why a run that has ended failed; None if it succeeded."""
    match snapshot.status:
        case Status.SUCCEEDED:
            return None
        case Status.EXPIRED:
            return Failure(FailureKind.TIMEOUT, _EXPIRED)
        case Status.CANCELLED if cancelled in BY_US:
            return BY_US[cancelled]
        case Status.CANCELLED:
            return Failure(FailureKind.UNKNOWN, "the cloud agent was stopped by someone else")
        case Status.GONE:
            return LOST
        case _:
            return _read_error(snapshot.error)


def _read_error(error: str) -> Failure:
    """Return the run's own reason for its failure; a usage limit is recognised."""
    if not error.strip():
        return Failure(FailureKind.CRASH, "Cursor says that the run failed, but not why")
    known = classify(1, None, None, "", error, "", time.time())
    if known is not None and known.kind is not FailureKind.CRASH:
        return known
    return Failure(FailureKind.CRASH, f"the cloud agent failed: {clip(error.strip(), _MESSAGE_CHARS)}")


def judge_refusal(error: CloudError, late: bool) -> Failure:
    """Return why the API could not be used; `late` if the job's time was up."""
    said = f"{error.message} ({error.code})"
    if error.limited:
        until = None if error.retry_after is None else time.time() + error.retry_after
        return Failure(FailureKind.RATE_LIMIT, f"Cursor's API limits requests: {said}", until=until)
    if error.denied:
        hint = "; check CURSOR_API_KEY and what your plan and role allow"
        return Failure(FailureKind.AUTH, f"Cursor's API refuses: {said}{hint}")
    if error.gone:
        return LOST
    if error.code == "agent_busy":
        return Failure(
            FailureKind.TIMEOUT, f"the cloud agent was busy with something else all the time: {said}"
        )
    if late:
        return Failure(FailureKind.TIMEOUT, f"the time limit passed while asking Cursor's API: {said}")
    if error.status >= 500 or error.code == UNREACHABLE:
        doubt = ", and did not say whether it has launched the agent" if error.unsure else ""
        return Failure(FailureKind.OUTAGE, f"Cursor's API is down or cannot be reached{doubt}: {said}")
    if error.unsure:
        return Failure(
            FailureKind.UNKNOWN, f"Cursor's API did not say whether it has launched the agent: {said}"
        )
    return Failure(FailureKind.NOT_STARTED, f"Cursor's API did not launch the agent: {said}")
