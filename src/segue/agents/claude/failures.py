"""Say in plain words why Claude Code failed: neither its exit code nor the subtype of its result tells."""

from __future__ import annotations

import re

from segue.agents.local.failures import FailureTable
from segue.agents.local.values import Json, as_list, as_text
from segue.domain.classify import classify, meaning_of
from segue.domain.failure import Failure, FailureKind
from segue.domain.resets import reset_time

LOGIN = "Run `claude auth login`, or set ANTHROPIC_API_KEY."
FAILURES = FailureTable(
    "Claude",
    LOGIN,
    at_start=(
        (
            r"^No conversation found.*$",
            FailureKind.NOT_STARTED,
            "Claude does not know the session to continue",
        ),
        (
            r"^.*cannot be used with root.*$",
            FailureKind.NOT_STARTED,
            "Claude refuses this permission mode to root",
        ),
        (
            r"^(?:error: )?unknown option.*$",
            FailureKind.NOT_STARTED,
            "this version of Claude does not know an option",
        ),
    ),
)
_API_ERROR = re.compile(r"^API Error:\s*(?:Request rejected \(\d+\)|\d{3})?\s*[·:]?\s*")
_BY_REASON = {
    "max_turns": (FailureKind.MAX_TURNS, "Claude used all the turns it may take (agents.claude.max_turns)"),
    "budget_exhausted": (
        FailureKind.USAGE_LIMIT,
        "Claude used all the money one launch may cost (agents.claude.max_budget_usd)",
    ),
}
_BY_API_ERROR = {
    "connection_failed": (
        FailureKind.OUTAGE,
        "Claude could not connect to its service, or lost the connection",
    ),
    "max_output_tokens": (FailureKind.TRUNCATED, "Claude's answer was cut at the model's longest output"),
}
_BY_STATUS = {
    401: (FailureKind.AUTH, ""),
    403: (FailureKind.AUTH, ""),
    404: (FailureKind.NOT_STARTED, "Claude's service does not know the model, or what it was asked for"),
    429: (FailureKind.RATE_LIMIT, ""),
}


def read_failure(result: Json, err_tail: str, now: float) -> Failure:
    """Return what a result means that reports an error."""
    errors = "; ".join(filter(None, map(as_text, as_list(result.get("errors")))))
    said = (as_text(result.get("result")) or errors).strip()
    limit = classify(1, None, None, "", _API_ERROR.sub("", said), "", now)
    if limit is not None and limit.kind is FailureKind.USAGE_LIMIT:
        return FAILURES.fail(limit.kind, limit.message, err_tail, limit.until)
    kind, meaning = _judge(result, said)
    until = reset_time(said, now) if kind is FailureKind.RATE_LIMIT else None
    return FAILURES.fail(kind, ": ".join(filter(None, (meaning, said))), err_tail, until)


def is_aborted(result: Json) -> bool:
    """Return whether the result only says that the program was interrupted, as it does whoever stops it."""
    return as_text(result.get("terminal_reason")).startswith("aborted")


def _judge(result: Json, said: str) -> tuple[FailureKind, str]:
    reason, error = as_text(result.get("terminal_reason")), as_text(result.get("api_error"))
    if reason in _BY_REASON:
        return _BY_REASON[reason]
    if error in _BY_API_ERROR:
        return _BY_API_ERROR[error]
    if is_aborted(result):
        return FailureKind.INTERRUPTED, "Claude was interrupted"
    # Its status is 400, or missing if Claude notices by itself.
    if meaning_of(said) is FailureKind.CONTEXT:
        return FailureKind.CONTEXT, "the conversation has become too long for the model"
    status = result.get("api_error_status")
    if isinstance(status, int) and status >= 500:
        return FailureKind.OUTAGE, "Claude's service is in trouble"
    if isinstance(status, int) and status:
        return _BY_STATUS.get(status, (FailureKind.UNKNOWN, ""))
    if found := FAILURES.find_sentence(said):
        return found[0], found[1]
    return meaning_of(said) or FailureKind.UNKNOWN, ""
