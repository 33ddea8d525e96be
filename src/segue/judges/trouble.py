"""Errors of a model's endpoint, and the reaction to each: wait, ask differently, or give up."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from segue.domain.errors import CredentialsError, JudgeFailed, SegueError

KEPT = "the work and its evidence; nothing was concluded about the task"

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 60.0
_PASSING = {408, 409, 425, 429}
_REFUSED = {400, 413, 422}


class JudgeUnavailable(Exception):
    """The judge cannot answer now; it may later."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


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
        return JudgeUnavailable(said, retry_after)
    if status in _REFUSED:
        return QuestionRefused(said)
    return failed(f"The judge's endpoint answered {said}.", "Check judge.base_url and judge.model")


def failed(message: str, hint: str) -> SegueError:
    """Return the error for a judge without a usable answer; it says nothing about the task."""
    return JudgeFailed(message, kept=KEPT, hint=hint)


async def ask_patiently(ask: Callable[[], Awaitable[str]], max_wait: float) -> str:
    """Ask until there is an answer; wait out rate limits and outages for at most `max_wait` seconds."""
    clock = asyncio.get_running_loop().time
    end, pause = None, _FIRST_PAUSE
    while True:
        try:
            return await ask()
        except JudgeUnavailable as error:
            # The clock starts with the first failure: how long an answer may take is limited elsewhere.
            end = end or clock() + max_wait
            left = end - clock()
            if left <= 0 or (error.retry_after or 0) > left:
                raise _give_up(error, max_wait) from error
            # Jitter keeps judges that were rejected together from retrying together.
            wanted = max(error.retry_after or 0, random.uniform(pause / 2, pause))  # noqa: S311
            await asyncio.sleep(min(wanted, left))
            pause = min(pause * 2, _LONGEST_PAUSE)


def _give_up(error: JudgeUnavailable, max_wait: float) -> SegueError:
    asked = f", and asks to wait {error.retry_after:.0f} s" if error.retry_after else ""
    return failed(
        f"The judge could not be reached within {max_wait:g} s: {error}{asked}.",
        "Run `segue resume` later, or raise judge.max_wait",
    )
