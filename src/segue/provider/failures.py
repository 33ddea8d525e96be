"""Failures in LiteLLM's own exception classes, so that its routers and fallbacks understand them.

Whoever was launched may have cost money: such a failure tells routers and clients not to try again.
"""

from __future__ import annotations

import importlib
from typing import Any

from segue.domain.errors import CredentialsError, SegueError
from segue.domain.failure import Failure, FailureKind
from segue.provider.request import Refused

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
_NO_RETRY = {"x-should-retry": "false"}
_STATUS = {
    "Timeout": 408,
    "RateLimitError": 429,
    "AuthenticationError": 401,
    "ServiceUnavailableError": 503,
    "UnprocessableEntityError": 422,
    "BadRequestError": 400,
    "ContextWindowExceededError": 400,
}


class AgentFailed(Exception):
    """An agent gave no answer."""

    def __init__(self, failure: Failure, launched: bool) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.launched = launched


class Busy(Exception):
    """The time limit passed while the call waited for a free process."""


def as_litellm(error: Exception, model: str, provider: str) -> Exception:
    """The exception a caller of LiteLLM expects; one of LiteLLM's own stays as it is."""
    if isinstance(error, AgentFailed):
        name = _CLASSES.get(error.failure.kind, _DEFINITE)
        if error.launched and error.failure.kind is FailureKind.NOT_STARTED:
            name = _DEFINITE  # it ran and refused to work, as with an unknown model
        return _made(name, _sentence(error.failure), model, provider, final=error.launched)
    if isinstance(error, Refused):
        return _made("BadRequestError", str(error), model, provider, final=True)
    if isinstance(error, Busy):
        return _made("Timeout", str(error), model, provider, final=False)
    if isinstance(error, CredentialsError):
        return _made("AuthenticationError", _told(error), model, provider, final=True)
    if isinstance(error, SegueError):
        return _made("ServiceUnavailableError", _told(error), model, provider, final=True)
    return error


def _made(name: str, message: str, model: str, provider: str, final: bool) -> Exception:
    litellm: Any = importlib.import_module("litellm")
    httpx: Any = importlib.import_module("httpx")  # comes with LiteLLM, and its exceptions want it
    arguments: dict[str, Any] = {"message": message, "model": model, "llm_provider": provider}
    if name != "Timeout":
        request = httpx.Request("POST", "https://segue.invalid")  # there was none
        arguments["response"] = httpx.Response(_STATUS[name], request=request)
    error: Any = getattr(litellm, name)(**arguments)
    if final:
        error.num_retries = 0  # read by LiteLLM's router
        error.headers = dict(_NO_RETRY)  # read by OpenAI's client, through the proxy
    assert isinstance(error, Exception)
    return error


def _sentence(failure: Failure) -> str:
    last = " ".join(failure.stderr_tail.split())[-500:]
    said = f" (stderr: {last})" if last and last not in failure.message else ""
    return f"{failure.kind}: {failure.message}{said}"


def _told(error: SegueError) -> str:
    return f"{error.message} {error.hint}".strip()
