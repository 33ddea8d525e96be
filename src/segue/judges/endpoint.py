"""Asks a model through an OpenAI-compatible endpoint: one question, one answer, no waiting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from segue.judges.options import JudgeSettings
from segue.judges.trouble import Unavailable, trouble
from segue.system.http.client import HttpClient, HttpError, HttpPolicy, HttpResponse

Message = dict[str, str]
"""One turn of the conversation: `role` and `content`."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a model is asked, and the form its answer must have, if the endpoint knows forms."""

    messages: tuple[Message, ...]
    response_format: dict[str, Any] | None = None

    def body(self, model: str) -> dict[str, Any]:
        """The question as OpenAI's interface has it."""
        form = {} if self.response_format is None else {"response_format": self.response_format}
        return {"model": model, "messages": list(self.messages), **form}


_KEPT = 300
"""Characters of an endpoint's own words that are passed on."""

_SERVER_ERROR = 500


async def ask_endpoint(
    options: JudgeSettings, key: str, question: Question, clean: Callable[[str], str]
) -> str:
    """What the model says; raises Unavailable, Refused, CredentialsError or JudgeFailed.

    `clean` takes secrets out of the endpoint's own words: some quote the key they reject.
    """
    headers = {"authorization": f"Bearer {key}"} if key else {}
    policy = HttpPolicy(timeout=options.timeout, attempts=1)
    try:
        async with HttpClient(options.base_url, headers, policy) as http:
            answer = await http.request("POST", "/chat/completions", body=question.body(options.model))
    except HttpError as error:
        raise Unavailable(str(error)) from None
    return _said(answer, clean)


def _said(answer: HttpResponse, clean: Callable[[str], str]) -> str:
    try:
        body = answer.json()
    except ValueError:
        body = None
    if answer.status != 200:
        raise trouble(answer.status, clean(_words(body)), answer.retry_after())
    if isinstance(body, dict) and body.get("error") and not body.get("choices"):
        # Some gateways answer 200 and put what went wrong behind them into the body.
        code = body["error"].get("code") if isinstance(body["error"], dict) else None
        status = code if isinstance(code, int) else _SERVER_ERROR
        raise trouble(status, clean(_words(body)), answer.retry_after())
    return _content(body)


def _content(body: Any) -> str:
    """The text of the first choice; nothing when there is none, which is an answer that cannot be used."""
    try:
        content = body["choices"][0]["message"]["content"]
    except (TypeError, KeyError, IndexError):
        return ""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _words(body: Any) -> str:
    """What the endpoint says went wrong."""
    error = body.get("error", body) if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return str(error)[:_KEPT] if isinstance(error, str) else ""
    words = [str(error[name]) for name in ("code", "message") if error.get(name)]
    return ": ".join(words)[:_KEPT]
