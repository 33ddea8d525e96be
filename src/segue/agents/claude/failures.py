"""Says in plain words why Claude Code failed: neither its exit code nor the subtype of its result tells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from segue.agents.json_lines import string
from segue.domain.classify import classify, meaning_of, plain
from segue.domain.failure import Failure, FailureKind
from segue.domain.resets import reset_time

_MESSAGE_CHARS = 400
_STDERR_CHARS = 2000
_API_ERROR = re.compile(r"^API Error:\s*(?:Request rejected \(\d+\)|\d{3})?\s*[·:]?\s*")
_LOGIN = "; log in with `claude auth login`, or set ANTHROPIC_API_KEY"
_ENDS = {
    "max_turns": (FailureKind.MAX_TURNS, "Claude used all the turns it may take (agents.claude.max_turns)"),
    "budget_exhausted": (
        FailureKind.USAGE_LIMIT,
        "Claude used all the money one launch may cost (agents.claude.max_budget_usd)",
    ),
}
_API_ERRORS = {
    "connection_failed": (FailureKind.OUTAGE, "Claude lost the connection to its service, or never had one"),
    "max_output_tokens": (FailureKind.TRUNCATED, "Claude's answer was cut at the model's longest output"),
}
_KNOWN = (
    (r"No conversation found.*", "Claude does not know the session that was to be continued"),
    (r".*cannot be used with root.*", "Claude refuses this permission mode to root"),
    (r"(?:error: )?unknown option.*", "this build of Claude does not know an option"),
)


def failed(result: Mapping[str, Any], err_tail: str, now: float) -> Failure:
    """What a result that calls itself an error means."""
    said = _said(result)
    stderr = plain(err_tail).strip()[-_STDERR_CHARS:]
    limit = classify(1, None, None, "", _API_ERROR.sub("", said), "", now)
    if limit is not None and limit.kind is FailureKind.USAGE_LIMIT:
        return replace(limit, stderr_tail=stderr)
    kind, meaning = _meaning(result, said)
    until = reset_time(said, now) if kind is FailureKind.RATE_LIMIT else None
    message = ": ".join(part for part in (meaning, said) if part)[:_MESSAGE_CHARS]
    if kind is FailureKind.AUTH:
        message += _LOGIN
    return Failure(kind, message or "Claude says that it failed", stderr, until)


def aborted(result: Mapping[str, Any]) -> bool:
    """Whether the result only says that the program was interrupted, as it says whoever ends it."""
    return string(result.get("terminal_reason")).startswith("aborted")


def explained(failure: Failure, out_plain: str) -> Failure:
    """A failure without a result, with the reason Claude gave, when it is one of those known."""
    if failure.kind is FailureKind.AUTH:
        return replace(failure, message=failure.message + _LOGIN)
    if failure.kind not in (FailureKind.CRASH, FailureKind.NO_RESULT):
        return failure
    for text in (failure.stderr_tail, out_plain):
        if found := _known(plain(text)):
            return replace(failure, kind=FailureKind.NOT_STARTED, message=found)
    return failure


def _said(result: Mapping[str, Any]) -> str:
    errors = result.get("errors")
    listed = [string(error) for error in errors] if isinstance(errors, list) else []
    return (string(result.get("result")) or "; ".join(filter(None, listed))).strip()


def _meaning(result: Mapping[str, Any], said: str) -> tuple[FailureKind, str]:
    reason, error = string(result.get("terminal_reason")), string(result.get("api_error"))
    if reason in _ENDS:
        return _ENDS[reason]
    if error in _API_ERRORS:
        return _API_ERRORS[error]
    if aborted(result):
        return FailureKind.INTERRUPTED, "Claude was interrupted"
    # Its status is 400 or, when Claude finds it out by itself, none.
    if meaning_of(said) is FailureKind.CONTEXT:
        return FailureKind.CONTEXT, "the conversation has become too long for the model"
    status = result.get("api_error_status")
    if isinstance(status, int) and status:
        return _by_status(status)
    if found := _known(said):
        return FailureKind.NOT_STARTED, found.partition(":")[0]
    return meaning_of(said) or FailureKind.UNKNOWN, ""


def _by_status(status: int) -> tuple[FailureKind, str]:
    if status in (401, 403):
        return FailureKind.AUTH, ""
    if status == 429:
        return FailureKind.RATE_LIMIT, ""
    if status == 404:
        return FailureKind.NOT_STARTED, "Claude's service does not know the model, or what it was asked for"
    return (
        (FailureKind.OUTAGE, "Claude's service is in trouble") if status >= 500 else (FailureKind.UNKNOWN, "")
    )


def _known(text: str) -> str | None:
    for pattern, meaning in _KNOWN:
        if found := re.search(f"^{pattern}$", text, re.MULTILINE):
            return f"{meaning}: {found[0].strip()}"[:_MESSAGE_CHARS]
    return None
