"""Errors of cloud agents' APIs as one exception, and what they mean for a launch, in plain words."""

from __future__ import annotations

import time
from typing import Any

from msgspec import Struct

from segue.agents.classify import classify
from segue.agents.local.values import as_list, as_table, as_text, clip
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
    410: "stream_expired",
    429: "rate_limit_exceeded",
}
"""Codes for bodies without one."""

_DENIED = frozenset({"unauthorized", "forbidden", "api_key_not_found", "plan_required"})
_GONE = frozenset({"not_found", "agent_not_found", "run_not_found", "agent_archived", "agent_deleted"})
_SECONDARY_LIMIT = "secondary rate limit"
"""GitHub says so with status 403."""

UNREACHABLE = "unreachable"
BAD_ANSWER = "bad_answer"


class CloudService(Struct, frozen=True):
    """What messages call a vendor."""

    name: str
    """The API: `Cursor's API`."""
    maker: str
    """Who is speaking: `Cursor`."""
    check: str
    """What to look at when the key is refused."""
    version: str = ""


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
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.status = status
        self.retry_after = retry_after
        self.sent = sent
        self.unknown_host = unknown_host

    @property
    def denied(self) -> bool:
        """True if the reason is the key, the plan or the role."""
        return not self.limited and (self.status in (401, 403) or self.code in _DENIED)

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
        asks_to_wait = self.retry_after is not None and (self.code == "forbidden" or self.code.isdecimal())
        secondary = self.status == 403 and (asks_to_wait or _SECONDARY_LIMIT in self.message.lower())
        return secondary or self.status == 429 or self.code == "rate_limit_exceeded"

    @property
    def away(self) -> bool:
        """True if the service does not work now but may later."""
        return self.status >= 500 or (self.code == UNREACHABLE and not self.unknown_host)

    @property
    def unsure(self) -> bool:
        """True if the request may have been executed nevertheless."""
        if self.code in (UNREACHABLE, BAD_ANSWER):
            return self.sent
        return self.status >= 500 or self.code == "agent_id_conflict"


def read_refusal(answer: HttpResponse) -> CloudError:
    """Return the error in an answer that is not 2xx."""
    try:
        code, message = read_error(answer.json())
    except ValueError:
        code = message = ""  # an HTML page from a proxy
    return CloudError(
        code or _BY_STATUS.get(answer.status, f"http_{answer.status}"),
        clip(message, _MESSAGE_CHARS) or f"HTTP status {answer.status}",
        status=answer.status,
        retry_after=answer.retry_after() if answer.status in (403, 429) else None,
    )


def make_unreachable(error: HttpError) -> CloudError:
    """Return the error for a request without an answer."""
    return CloudError(
        UNREACHABLE, f"no answer from the API: {error}", sent=error.sent, unknown_host=error.unknown_host
    )


def make_bad_answer(answer: HttpResponse, what: str) -> CloudError:
    """Return the error for a success that cannot be understood."""
    return CloudError(BAD_ANSWER, f"the API's answer cannot be understood: {what}", status=answer.status)


def read_error(body: Any) -> tuple[str, str]:
    """Return code and message from any shape that was seen: nested, flat, a text, a detail."""
    outer = as_table(body)
    inner = outer.get("error")
    if isinstance(inner, str):
        return "", as_text(outer.get("message")) or inner
    found = as_table(inner) or outer
    detail = found.get("detail")
    listed = "; ".join(as_text(as_table(one).get("msg")) for one in as_list(detail))
    message = as_text(found.get("message")) or as_text(detail) or listed
    help_url = as_text(found.get("helpUrl"))
    # Cursor's `code`; Google's `status`, whose code is a number; Anthropic's `type`.
    code = next((word for name in ("code", "status", "type") if (word := as_text(found.get(name)))), "")
    return code, f"{message} See {help_url}" if help_url else message


TIMEOUT = Failure(
    FailureKind.TIMEOUT, "the cloud agent did not finish within its time limit and was cancelled"
)
HANG = Failure(FailureKind.HANG, "the cloud agent did nothing for too long and was cancelled")
INTERRUPTED = Failure(FailureKind.INTERRUPTED, "the cloud agent was cancelled by Segue")
DELETED = Failure(
    FailureKind.DELETED, "the cloud agent or its run is gone: deleted, or not visible with this key"
)

BY_US = {"timeout": TIMEOUT, "hang": HANG, "interrupted": INTERRUPTED}
"""Why we have cancelled a run, by the note that is kept until its outcome is stored."""


def judge_reason(error: str, service: CloudService) -> Failure:
    """Return a vendor's own reason for a failure; a usage limit is recognised."""
    if not error.strip():
        return Failure(FailureKind.CRASH, f"{service.maker} says that the run failed, but not why")
    known = classify(1, None, None, "", error, "", time.time())
    if known is not None and known.kind is not FailureKind.CRASH:
        return known
    return Failure(FailureKind.CRASH, f"the cloud agent failed: {clip(error.strip(), _MESSAGE_CHARS)}")


def judge_refusal(error: CloudError, late: bool, service: CloudService) -> Failure:
    """Return why the API could not be used; `late` if the job's time was up."""
    said, name = f"{error.message} ({error.code})", service.name
    if error.limited:
        until = None if error.retry_after is None else time.time() + error.retry_after
        return Failure(FailureKind.RATE_LIMIT, f"{name} limits requests: {said}", until=until)
    if error.status == 402 or error.code == "billing_error" or _is_usage_limit(error.message):
        return Failure(FailureKind.USAGE_LIMIT, f"{name} wants to be paid: {said}")
    if error.denied:
        return Failure(FailureKind.AUTH, f"{name} refuses: {said}; check {service.check}")
    if error.gone:
        return DELETED
    if error.code == "agent_busy":
        return Failure(
            FailureKind.TIMEOUT, f"the cloud agent was busy with something else all the time: {said}"
        )
    if error.unknown_host:
        return Failure(FailureKind.NOT_STARTED, f"{name} was not found; check base_url: {said}")
    if late:
        return Failure(FailureKind.TIMEOUT, f"the time limit passed while asking {name}: {said}")
    if error.status >= 500 or error.code == UNREACHABLE:
        doubt = ", and did not say whether it has launched the agent" if error.unsure else ""
        return Failure(FailureKind.OUTAGE, f"{name} is down or cannot be reached{doubt}: {said}")
    if error.unsure:
        return Failure(FailureKind.UNKNOWN, f"{name} did not say whether it has launched the agent: {said}")
    return Failure(FailureKind.NOT_STARTED, f"{name} did not launch the agent: {said}")


def _is_usage_limit(message: str) -> bool:
    found = classify(1, None, None, "", message, "", time.time())
    return found is not None and found.kind is FailureKind.USAGE_LIMIT
