"""Why a run of Cursor's failed, in plain words."""

from __future__ import annotations

from typing import Any

from segue.agents.cloud import errors
from segue.agents.cloud.errors import BY_US, LOST, CloudError, CloudService, judge_reason, read_error
from segue.agents.cursor_cloud.api import RunSnapshot, Status
from segue.agents.local.values import clip
from segue.domain.failure import Failure, FailureKind

_MESSAGE_CHARS = 500
CURSOR = CloudService("Cursor's API", "Cursor", "CURSOR_API_KEY and what your plan and role allow")
_EXPIRED = "Cursor let the run expire: that is its own time limit, not one of Segue's"


def read_stream_error(data: Any) -> CloudError:
    """Return the error in an `error` event of a stream."""
    code, message = read_error(data)
    return CloudError(code or "read_stream_error", clip(message, _MESSAGE_CHARS) or "the stream failed")


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
            return judge_reason(snapshot.error, CURSOR)


def judge_refusal(error: CloudError, late: bool) -> Failure:
    """Return why Cursor's API could not be used; `late` if the job's time was up."""
    return errors.judge_refusal(error, late, CURSOR)
