"""Answers in LiteLLM's shape: content, finish reason, usage, cost and trace."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from segue.features.litellm.request import ModelCall

HIDDEN = "segue"
"""The trace's name in the `_hidden_params` of a response."""

LOGGED = "segue_trace"
"""The trace's name in the `kwargs` of callbacks, also for streams and failures."""

_CHUNK_CHARS = 2000


class ModelAnswer(Struct, frozen=True):
    """The answer of a model."""

    text: str
    finish_reason: str = "stop"


def fill_response(response: Any, answer: ModelAnswer, call: ModelCall) -> Any:
    """Put the answer into the response that LiteLLM has prepared, and return it."""
    litellm: Any = importlib.import_module("litellm")
    usage = _sum_usage(call)
    choice = response.choices[0]
    choice.message.content = answer.text
    choice.finish_reason = answer.finish_reason
    response.created = int(time.time())
    response.model = call.model
    response.usage = litellm.Usage(**usage)
    response._hidden_params[HIDDEN] = {"trace": call.trace.data(), "usage_estimated": usage["estimated"]}
    if usage["cost"] is not None:
        response._hidden_params["response_cost"] = usage["cost"]
    return response


def make_chunks(text: str) -> Iterator[dict[str, Any]]:
    """Yield a text as LiteLLM's streaming chunks."""
    for piece in _split(text):
        yield _chunk(piece)


def last_chunk(answer: ModelAnswer, call: ModelCall) -> dict[str, Any]:
    """Return the chunk that ends a stream, with the usage."""
    return {
        **_chunk(""),
        "is_finished": True,
        "finish_reason": answer.finish_reason,
        "usage": _sum_usage(call),
    }


def add_trace(logging: Any, call: ModelCall) -> None:
    """Show the trace to LiteLLM's callbacks."""
    details = getattr(logging, "model_call_details", None)
    if isinstance(details, dict):
        details[LOGGED] = call.trace.data()


def _sum_usage(call: ModelCall) -> dict[str, Any]:
    """Sum tokens and dollars over all models asked; `estimated` if one of them reported no usage."""
    leaves = [span for span in call.trace.spans if span.kind != "profile"]
    read, written = sum(s.input_tokens for s in leaves), sum(s.output_tokens for s in leaves)
    costs = [span.cost_usd for span in leaves if span.cost_usd is not None]
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "cost": sum(costs) if costs else None,
        "estimated": any(span.estimated for span in leaves),
    }


def _chunk(text: str) -> dict[str, Any]:
    return {
        "text": text,
        "is_finished": False,
        "finish_reason": "",
        "usage": None,
        "index": 0,
        "tool_use": None,
    }


def _split(text: str) -> Iterator[str]:
    """Split a text into chunks of bounded size, at line ends where possible."""
    while len(text) > _CHUNK_CHARS:
        end = text.rfind("\n", 0, _CHUNK_CHARS) + 1 or _CHUNK_CHARS
        yield text[:end]
        text = text[end:]
    yield text
