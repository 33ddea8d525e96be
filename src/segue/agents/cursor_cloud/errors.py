"""Refusals of the Cloud Agents API: four shapes of bodies and the errors in streams, as one exception."""

from __future__ import annotations

from typing import Any

from segue.agents.cursor.tools import clip, table
from segue.system.http.client import HttpError, HttpResponse

_MESSAGE_CHARS = 500
_BY_STATUS = {
    400: "validation_error",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    409: "conflict",
    410: "stream_expired",
    429: "rate_limit_exceeded",
}
"""Codes for bodies that have none."""

_DENIED = frozenset({"unauthorized", "forbidden", "api_key_not_found", "plan_required"})
_GONE = frozenset({"not_found", "agent_not_found", "run_not_found", "agent_archived", "agent_deleted"})

UNREACHABLE = "unreachable"
BAD_ANSWER = "bad_answer"


class CloudError(Exception):
    """The API said no, or said nothing. `status` is 0 when there was no HTTP answer of its own."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int = 0,
        retry_after: float | None = None,
        sent: bool = True,
    ) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.status = status
        self.retry_after = retry_after
        self.sent = sent

    @property
    def denied(self) -> bool:
        """Whether the key, the plan or the role is the reason."""
        return self.status in (401, 403) or self.code in _DENIED

    @property
    def gone(self) -> bool:
        """Whether what was asked for is not there (any more)."""
        return self.status == 404 or self.code in _GONE

    @property
    def limited(self) -> bool:
        """Whether too much was asked."""
        return self.status == 429 or self.code == "rate_limit_exceeded"

    @property
    def unsure(self) -> bool:
        """Whether what was asked for may have been done all the same."""
        if self.code in (UNREACHABLE, BAD_ANSWER):
            return self.sent
        return self.status >= 500 or self.code == "agent_id_conflict"


def refusal(answer: HttpResponse) -> CloudError:
    """What an answer that is not 2xx says."""
    try:
        code, message = _said(answer.json())
    except ValueError:
        code = message = ""  # an HTML page of something in between
    return CloudError(
        code or _BY_STATUS.get(answer.status, f"http_{answer.status}"),
        clip(message, _MESSAGE_CHARS) or f"HTTP status {answer.status}",
        status=answer.status,
        retry_after=answer.retry_after() if answer.status == 429 else None,
    )


def stream_error(data: Any) -> CloudError:
    """What an `error` event of a stream says."""
    code, message = _said(data)
    return CloudError(code or "stream_error", clip(message, _MESSAGE_CHARS) or "the stream failed")


def unreachable(error: HttpError) -> CloudError:
    """There was no answer."""
    return CloudError(UNREACHABLE, f"no answer from the API: {error}", sent=error.sent)


def bad_answer(answer: HttpResponse, what: str) -> CloudError:
    """The API agreed, but its answer cannot be understood."""
    return CloudError(BAD_ANSWER, f"the API's answer cannot be understood: {what}", status=answer.status)


def _said(body: Any) -> tuple[str, str]:
    """Code and message in any of the four shapes: nested, flat, a bare text, a text beside a message."""
    outer = table(body)
    inner = outer.get("error")
    if isinstance(inner, str):
        return "", _text(outer.get("message")) or inner
    found = table(inner) or outer
    message = _text(found.get("message"))
    help_url = _text(found.get("helpUrl"))
    return _text(found.get("code")), f"{message} See {help_url}" if help_url else message


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
