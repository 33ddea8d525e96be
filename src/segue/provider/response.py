"""Answers in LiteLLM's shape: content, finish reason, usage, cost and trace."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from typing import Any

from segue.provider.cli_models import Answer
from segue.provider.engine import Call
from segue.provider.trace import Span

HIDDEN = "segue"
"""Under this name the trace stands in `_hidden_params` of a response."""

LOGGED = "segue_trace"
"""Under this name callbacks find the trace in `kwargs`, also of streams and failures."""

_PIECE_CHARS = 2000


def fill(response: Any, answer: Answer, call: Call) -> Any:
    """The answer in the response that LiteLLM has prepared."""
    litellm: Any = importlib.import_module("litellm")
    used = usage(call)
    choice = response.choices[0]
    choice.message.content = answer.text
    choice.finish_reason = answer.finish_reason
    response.created = int(time.time())
    response.model = call.model
    response.usage = litellm.Usage(**used)
    response._hidden_params[HIDDEN] = {"trace": call.trace.data(), "usage_estimated": used["estimated"]}
    if used["cost"] is not None:
        response._hidden_params["response_cost"] = used["cost"]
    return response


def chunks(answer: Answer, call: Call) -> Iterator[dict[str, Any]]:
    """The answer as LiteLLM's streaming chunks; the last one says what it cost."""
    *first, last = list(_pieces(answer.text)) or [""]
    for piece in first:
        yield _chunk(piece)
    yield {
        **_chunk(last),
        "is_finished": True,
        "finish_reason": answer.finish_reason,
        "usage": usage(call),
    }


def note(logging: Any, call: Call) -> None:
    """Show the trace to LiteLLM's callbacks."""
    details = getattr(logging, "model_call_details", None)
    if isinstance(details, dict):
        details[LOGGED] = call.trace.data()


def usage(call: Call) -> dict[str, Any]:
    """Tokens and dollars of everything that was asked; `estimated` when nobody reported them all."""
    leaves = [span for span in call.trace.spans if span.kind != "profile"]
    read, written = sum(s.input_tokens for s in leaves), sum(s.output_tokens for s in leaves)
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "cost": _cost(leaves),
        "estimated": any(span.estimated for span in leaves),
    }


def _cost(leaves: list[Span]) -> float | None:
    known = [span.cost_usd for span in leaves if span.cost_usd is not None]
    return sum(known) if known else None


def _chunk(text: str) -> dict[str, Any]:
    return {
        "text": text,
        "is_finished": False,
        "finish_reason": "",
        "usage": None,
        "index": 0,
        "tool_use": None,
    }


def _pieces(text: str) -> Iterator[str]:
    """Pieces of a bounded size that end with a line where they can."""
    while len(text) > _PIECE_CHARS:
        end = text.rfind("\n", 0, _PIECE_CHARS) + 1 or _PIECE_CHARS
        yield text[:end]
        text = text[end:]
    yield text
