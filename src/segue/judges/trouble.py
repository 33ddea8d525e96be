"""Errors of a model's endpoint, and the reaction to each: wait, ask differently, or give up."""

from __future__ import annotations

from segue.domain.errors import CredentialsError, JudgeFailed, SegueError, Unavailable

SERVICE = "the judge"
KEPT = "the work and its evidence; nothing was concluded about the task"

_PASSING = {408, 409, 425, 429}
_REFUSED = {400, 413, 422}


class QuestionRefused(Exception):
    """The endpoint does not accept the question in this form."""


def trouble(status: int, message: str, retry_after: float | None = None) -> Exception:
    """Return the exception for an HTTP status."""
    said = f"HTTP {status}: {message}" if message else f"HTTP {status}"
    if status in (401, 403):
        return CredentialsError(
            f"The judge's endpoint rejected the key ({said}).",
            kept=KEPT,
            hint="Check the variable that judge.api_key_env names",
        )
    if "insufficient_quota" in message:
        return failed(f"The judge's account has no quota left ({said}).", "Top it up, or set judge.model")
    if status in _PASSING or status >= 500:
        return Unavailable(SERVICE, said, retry_after)
    if status in _REFUSED:
        return QuestionRefused(said)
    return failed(f"The judge's endpoint answered {said}.", "Check judge.base_url and judge.model")


def failed(message: str, hint: str) -> SegueError:
    """Return the error for a judge without a usable answer; it says nothing about the task."""
    return JudgeFailed(message, kept=KEPT, hint=hint)
