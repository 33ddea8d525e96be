"""Asks a model at an endpoint, or of any vendor through LiteLLM, and says how to react to its errors."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from segue.domain.errors import CredentialsError, JudgeFailed, SegueError, Unavailable
from segue.judges.options import JudgeSettings
from segue.system.extras import missing_extra
from segue.system.http.client import HttpClient, HttpError, HttpPolicy, HttpResponse

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


ModelMessage = dict[str, str]
"""One turn of the conversation: `role` and `content`."""


class ModelQuestion(Struct, frozen=True):
    """A question to a model, and the form of its answer if the endpoint supports one."""

    messages: tuple[ModelMessage, ...]
    response_format: dict[str, Any] | None = None

    def body(self, model: str) -> dict[str, Any]:
        """Return the body of the request in OpenAI's format."""
        form = {} if self.response_format is None else {"response_format": self.response_format}
        return {"model": model, "messages": list(self.messages), **form}


_KEPT = 300
"""Characters of an endpoint's own error message to report."""

_SERVER_ERROR = 500


async def ask_endpoint(
    options: JudgeSettings, key: str, question: ModelQuestion, clean: Callable[[str], str]
) -> str:
    """Return the model's answer; raises Unavailable, QuestionRefused, CredentialsError or JudgeFailed.

    `clean` removes secrets from the endpoint's messages: some quote the key they reject.
    """
    headers = {"authorization": f"Bearer {key}"} if key else {}
    policy = HttpPolicy(timeout=options.timeout, attempts=1)
    try:
        async with HttpClient(options.base_url, headers, policy) as http:
            answer = await http.request("POST", "/chat/completions", body=question.body(options.model))
    except HttpError as error:
        if error.unknown_host:
            raise failed(f"The judge's endpoint cannot be found: {error}.", "Check judge.base_url") from None
        raise Unavailable(SERVICE, str(error)) from None
    return _read(answer, clean)


def _read(answer: HttpResponse, clean: Callable[[str], str]) -> str:
    try:
        body = answer.json()
    except ValueError:
        body = None
    if answer.status != 200:
        raise trouble(answer.status, clean(_explain(body)), answer.retry_after())
    if isinstance(body, dict) and body.get("error") and not body.get("choices"):
        # Some gateways answer 200 and put the error into the body.
        code = body["error"].get("code") if isinstance(body["error"], dict) else None
        status = code if isinstance(code, int) else _SERVER_ERROR
        raise trouble(status, clean(_explain(body)), answer.retry_after())
    return _content(body)


def _content(body: Any) -> str:
    """Return the text of the first choice; empty if there is none, which counts as an unusable answer."""
    try:
        content = body["choices"][0]["message"]["content"]
    except (TypeError, KeyError, IndexError):
        return ""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _explain(body: Any) -> str:
    """Return the endpoint's own error message."""
    error = body.get("error", body) if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return str(error)[:_KEPT] if isinstance(error, str) else ""
    words = [str(error[name]) for name in ("code", "message") if error.get(name)]
    return ": ".join(words)[:_KEPT]


PREFIX = "litellm/"
EXTRA = "litellm"
"""The extra that has it."""
MISSING = "LiteLLM is not installed, but the judge's model needs it."


def is_installed() -> bool:
    """Return whether LiteLLM can be imported."""
    return importlib.util.find_spec("litellm") is not None


async def ask_vendor(options: JudgeSettings, question: ModelQuestion, clean: Callable[[str], str]) -> str:
    """Return the model's answer; raises Unavailable, QuestionRefused or another SegueError."""
    if not is_installed():
        raise missing_extra(MISSING, EXTRA)
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True  # it prints advertisements to stdout otherwise
    body = question.body(options.model.removeprefix(PREFIX))
    try:
        answer = await litellm.acompletion(**body, timeout=options.timeout, num_retries=0)
    except Exception as error:
        raise _translate(error, clean) from None
    content: str | None = answer.choices[0].message.content
    return content or ""


def _translate(error: Exception, clean: Callable[[str], str]) -> Exception:
    """Translate an error: LiteLLM maps every vendor's to OpenAI's status; one without never arrived."""
    status = getattr(error, "status_code", None)
    words = clean(f"{type(error).__name__}: {error}"[:_KEPT])
    return trouble(status, words) if isinstance(status, int) else Unavailable(SERVICE, words)
