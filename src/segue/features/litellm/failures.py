"""Failures of a call, translated to LiteLLM's exception classes, which its routers and fallbacks understand.

A launched agent may have cost money: such a failure tells routers and clients not to retry.
"""

from __future__ import annotations

import importlib
import math
import time
from contextvars import ContextVar
from typing import Any

from segue.domain.errors import CredentialsError, SegueError
from segue.domain.outcome import Failure, FailureKind

_CLASSES = {
    FailureKind.TIMEOUT: "Timeout",
    FailureKind.HANG: "Timeout",
    FailureKind.RATE_LIMIT: "RateLimitError",
    FailureKind.USAGE_LIMIT: "RateLimitError",
    FailureKind.AUTH: "AuthenticationError",
    FailureKind.OUTAGE: "ServiceUnavailableError",
    FailureKind.NOT_STARTED: "ServiceUnavailableError",
    FailureKind.CONTEXT: "ContextWindowExceededError",
}
_DEFINITE = "UnprocessableEntityError"
_ASK_AGAIN = 60
"""Seconds after which a limit is asked again whose end the agent did not say."""
_NO_RETRY = {"x-should-retry": "false"}
_STATUS = {
    "Timeout": 408,
    "RateLimitError": 429,
    "AuthenticationError": 401,
    "ServiceUnavailableError": 503,
    "UnprocessableEntityError": 422,
    "BadRequestError": 400,
    "NotFoundError": 404,
    "ContextWindowExceededError": 400,
}


headers_of_failure: ContextVar[dict[str, str] | None] = ContextVar("headers_of_failure", default=None)
"""Takes the headers of a request's last failure for who wants them: LiteLLM drops those of streams."""


class InvalidRequest(ValueError):
    """The request cannot be fulfilled as it is; the caller must change it."""


class AgentFailed(Exception):
    """An agent gave no answer."""

    def __init__(self, failure: Failure, was_launched: bool) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.was_launched = was_launched


class Busy(Exception):
    """The time limit passed while the call waited for a free process."""


class OutOfBudget(Exception):
    """The calls of this process have used what the settings allow; nothing was started."""


def to_litellm(error: Exception, model: str, provider: str) -> Exception:
    """Return the exception a caller of LiteLLM expects; one of LiteLLM's own is returned unchanged."""
    if isinstance(error, AgentFailed):
        name = _CLASSES.get(error.failure.kind, _DEFINITE)
        if error.was_launched and error.failure.kind is FailureKind.NOT_STARTED:
            # It started and refused to work, as with an unknown model.
            name = "NotFoundError" if "the model" in error.failure.message else _DEFINITE
        wait = _seconds_until(error.failure, name)
        return _make(name, _describe(error.failure), model, provider, final=error.was_launched, wait=wait)
    if isinstance(error, InvalidRequest):
        return _make("BadRequestError", str(error), model, provider, final=True)
    if isinstance(error, OutOfBudget):
        return _make("RateLimitError", str(error), model, provider, final=True)
    if isinstance(error, Busy):
        return _make("Timeout", str(error), model, provider, final=False)
    if isinstance(error, SegueError):
        name = "AuthenticationError" if isinstance(error, CredentialsError) else "ServiceUnavailableError"
        return _make(name, f"{error.message} {error.hint}".strip(), model, provider, final=True)
    return error


def to_stream_error(error: Exception, has_spoken: bool) -> Exception:
    """Return the same error for a stream, in which LiteLLM's routers fall back on one kind of error alone.

    It stays what it was for everybody else. After the first piece nobody can take over.
    """
    exceptions: Any = importlib.import_module("litellm.exceptions")
    kind, mid_stream = type(error), exceptions.MidStreamFallbackError
    if isinstance(error, mid_stream) or not hasattr(error, "llm_provider"):
        return error
    changed: Any = error
    changed.__class__ = type(kind.__name__, (kind, mid_stream), {"__module__": kind.__module__})
    changed.original_exception, changed.generated_content = None, ""
    changed.is_pre_first_chunk = not has_spoken
    return error


def _seconds_until(failure: Failure, name: str) -> int | None:
    """Return when it makes sense to ask again, as far as that is known; for a limit it is always said."""
    if failure.until is not None:
        return max(1, math.ceil(failure.until - time.time()))
    return _ASK_AGAIN if name == "RateLimitError" else None


def _make(
    name: str, message: str, model: str, provider: str, final: bool, wait: int | None = None
) -> Exception:
    litellm: Any = importlib.import_module("litellm")
    httpx: Any = importlib.import_module("httpx")  # installed with LiteLLM, whose exceptions need it
    arguments: dict[str, Any] = {"message": message, "model": model, "llm_provider": provider}
    headers = {} if wait is None else {"retry-after": str(wait)}
    if name != "Timeout":
        request = httpx.Request("POST", "https://segue.invalid")  # there was no real one
        arguments["response"] = httpx.Response(_STATUS[name], request=request, headers=headers)
    error: Any = getattr(litellm, name)(**arguments)
    if final:
        error.num_retries = 0  # read by LiteLLM's router
        headers |= _NO_RETRY
    if headers:
        error.headers = headers  # read by OpenAI's client, through the proxy
    if (wanted := headers_of_failure.get()) is not None:
        wanted.clear()
        wanted.update(headers)
    assert isinstance(error, Exception)
    return error


def _describe(failure: Failure) -> str:
    stderr = " ".join(failure.stderr_tail.split())[-500:]
    more = f" (stderr: {stderr})" if stderr and stderr not in failure.message else ""
    return f"{failure.kind}: {failure.message}{more}"
