"""What Cursor's API refuses, as one exception, and what it means for a launch, in plain words."""

from __future__ import annotations

import time
from typing import Any

from segue.agents.local.values import as_table, as_text, clip
from segue.agents.why_failed import explain_text
from segue.domain.outcome import Failure, FailureKind
from segue.system.http.client import HttpError, HttpResponse

_MESSAGE_CHARS = 500
_BY_STATUS = {
    400: "validation_error",
    401: "unauthorized",
    402: "billing_error",
    403: "forbidden",
    404: "not_found",
    409: "conflict",
    429: "rate_limit_exceeded",
}
"""Codes for bodies without one."""

_DENIED = frozenset({"unauthorized", "forbidden", "api_key_not_found", "plan_required"})
_GONE = frozenset({"not_found", "agent_not_found", "run_not_found", "agent_archived", "agent_deleted"})
UNREACHABLE = "unreachable"
BAD_ANSWER = "bad_answer"

TIMEOUT = Failure(
    FailureKind.TIMEOUT, "the cloud agent did not finish within its time limit and was cancelled"
)
INTERRUPTED = Failure(FailureKind.INTERRUPTED, "the cloud agent was cancelled by Segue")
DELETED = Failure(
    FailureKind.DELETED, "the cloud agent or its run is gone: deleted, or not visible with this key"
)


class CloudError(Exception):
    """The API refused or did not answer; `status` is 0 if there was no HTTP answer."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int = 0,
        retry_after: float | None = None,
        sent: bool = True,
        unknown_host: bool = False,
    ) -> None:
        """`sent`: the request may have reached the API and changed something there."""
        super().__init__(f"{message} ({code})")
        self.code, self.message, self.status = code, message, status
        self.retry_after, self.sent, self.unknown_host = retry_after, sent, unknown_host

    @property
    def denied(self) -> bool:
        """True if the reason is the key, the plan or the role."""
        return self.status in (401, 403) or self.code in _DENIED

    @property
    def gone(self) -> bool:
        """True if what was asked for does not exist (any more)."""
        return self.status == 404 or self.code in _GONE

    @property
    def archived(self) -> bool:
        """True if the agent exists, but takes no more messages."""
        return self.code == "agent_archived"

    @property
    def limited(self) -> bool:
        """True if there were too many requests."""
        return self.status == 429 or self.code == "rate_limit_exceeded"

    @property
    def away(self) -> bool:
        """True if the service does not work now but may later."""
        return self.status >= 500 or (self.code == UNREACHABLE and not self.unknown_host)

    @property
    def unsure(self) -> bool:
        """True if the request may have started something nevertheless."""
        unclear = self.code in (UNREACHABLE, BAD_ANSWER, "agent_id_conflict")
        return self.sent and (unclear or self.status >= 500)


def read_refusal(answer: HttpResponse, sent: bool = True) -> CloudError:
    """Return the error in an answer that is not 2xx."""
    try:
        code, message = _read_error(answer.json())
    except ValueError:
        code = message = ""  # an HTML page from a proxy
    return CloudError(
        code or _BY_STATUS.get(answer.status, f"http_{answer.status}"),
        clip(message, _MESSAGE_CHARS) or f"HTTP status {answer.status}",
        status=answer.status,
        retry_after=answer.retry_after() if answer.status == 429 else None,
        sent=sent,
    )


def _read_error(body: Any) -> tuple[str, str]:
    """Return code and message from any shape that was seen: nested, flat, a text."""
    outer = as_table(body)
    inner = outer.get("error")
    if isinstance(inner, str):
        return "", as_text(outer.get("message")) or inner
    error = as_table(inner) or outer
    message, help_url = as_text(error.get("message")), as_text(error.get("helpUrl"))
    return as_text(error.get("code")), f"{message} See {help_url}" if help_url else message


def make_unreachable(error: HttpError, sent: bool) -> CloudError:
    """Return the error for a request without an answer."""
    message, sent = f"no answer from the API: {error}", sent and error.sent
    return CloudError(UNREACHABLE, message, sent=sent, unknown_host=error.unknown_host)


def make_bad_answer(answer: HttpResponse, what: str, sent: bool = True) -> CloudError:
    """Return the error for a success that cannot be understood."""
    message = f"the API's answer cannot be understood: {what}"
    return CloudError(BAD_ANSWER, message, status=answer.status, sent=sent)


def judge_reason(error: str) -> Failure:
    """Return Cursor's own reason why a run failed; a usage limit is recognised."""
    if not error.strip():
        return Failure(FailureKind.CRASH, "Cursor says that the run failed, but not why")
    message = f"the cloud agent failed: {clip(error.strip(), _MESSAGE_CHARS)}"
    return explain_text(error, time.time()) or Failure(FailureKind.CRASH, message)


def judge_refusal(error: CloudError, late: bool) -> Failure:
    """Return why the API could not be used; `late` if the job's time was up."""
    said = f"{error.message} ({error.code})"
    if error.limited:
        until = None if error.retry_after is None else time.time() + error.retry_after
        return Failure(FailureKind.RATE_LIMIT, f"Cursor's API limits requests: {said}", until=until)
    if error.status == 402 or judge_reason(error.message).kind is FailureKind.USAGE_LIMIT:
        return Failure(FailureKind.USAGE_LIMIT, f"Cursor's API wants to be paid: {said}")
    if error.denied:
        check = "check CURSOR_API_KEY and what your plan and role allow"
        return Failure(FailureKind.AUTH, f"Cursor's API refuses: {said}; {check}")
    if error.gone:
        return DELETED
    if error.code == "agent_busy":
        message = f"the cloud agent was busy with something else all the time: {said}"
        return Failure(FailureKind.TIMEOUT, message)
    if error.unknown_host:
        message = f"Cursor's API was not found; check base_url: {said}"
        return Failure(FailureKind.NOT_STARTED, message)
    if late:
        return Failure(FailureKind.TIMEOUT, f"the time limit passed while asking Cursor's API: {said}")
    doubt = "did not say whether it has launched the agent"
    if error.away:
        also = f", and {doubt}" if error.unsure else ""
        return Failure(FailureKind.OUTAGE, f"Cursor's API is down or cannot be reached{also}: {said}")
    if error.unsure:
        return Failure(FailureKind.UNKNOWN, f"Cursor's API {doubt}: {said}")
    return Failure(FailureKind.NOT_STARTED, f"Cursor's API did not launch the agent: {said}")
