"""Reads a call as LiteLLM passes it, strictly.

Command-line agents take text and return text. What they cannot take is refused, never dropped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from segue.features.litellm.catalogue import COMPOSITE, SUFFIX
from segue.features.litellm.failures import InvalidRequest
from segue.features.litellm.prompts import ChatMessage, Speaker
from segue.features.litellm.trace import Trace

_ROLES = {
    "system": Speaker.SYSTEM,
    "developer": Speaker.SYSTEM,
    "user": Speaker.USER,
    "assistant": Speaker.ASSISTANT,
}
_UNSUPPORTED = ("tools", "functions", "function_call", "audio", "prediction", "web_search_options")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+=,\[\]-]{0,199}")
_DEFAULT_TIMEOUT = 600.0


class ModelCall(Struct, frozen=True):
    """One call of a model."""

    model: str
    """With its provider: `composer-cli/composer-2.5`."""
    messages: Sequence[ChatMessage]
    params: Mapping[str, Any]
    timeout: float
    trace: Trace = field(default_factory=Trace)


def read_call(asked: dict[str, Any]) -> ModelCall:
    """Return the call that LiteLLM describes; raise InvalidRequest for one that cannot be fulfilled."""
    params = asked.get("optional_params") or {}
    _check_params(params)
    tuning = {name: value for name, value in params.items() if name not in ("stream", "stream_options")}
    if not asked["messages"]:
        raise InvalidRequest("messages is empty: there is nothing to answer.")
    messages = [_read_message(f"messages[{n}]", dict(given)) for n, given in enumerate(asked["messages"])]
    model = f"{provider_of(asked)}/{asked['model']}"
    return ModelCall(model, messages, tuning, _seconds(asked.get("timeout")))


def provider_of(asked: dict[str, Any]) -> str:
    """Return the provider under which LiteLLM calls us."""
    named = (asked.get("litellm_params") or {}).get("custom_llm_provider")
    return named if isinstance(named, str) and named.endswith(SUFFIX) else COMPOSITE


def check_model(model: str) -> str:
    """Return the model if it can be nothing but a name: it becomes an argument of a program."""
    if not _MODEL.fullmatch(model):
        raise InvalidRequest(f"{model!r} is not the name of a model.")
    return model


def _seconds(timeout: Any) -> float:
    """Return the time limit: LiteLLM passes seconds, an httpx timeout, or nothing."""
    if isinstance(timeout, int | float) and timeout > 0:
        return float(timeout)
    read = getattr(timeout, "read", None)
    return float(read) if isinstance(read, int | float) and read > 0 else _DEFAULT_TIMEOUT


def _check_params(params: Mapping[str, Any]) -> None:
    """Refuse parameters that change what an answer is; those that only tune it are ignored."""
    for name in _UNSUPPORTED:
        if params.get(name):
            raise InvalidRequest(f"{name} is not supported: command-line agents answer with text only.")
    if params.get("tool_choice") not in (None, "none"):
        raise InvalidRequest("tool_choice is not supported: command-line agents answer with text only.")
    if (params.get("n") or 1) != 1:
        raise InvalidRequest("n must be 1: a command-line agent gives one answer.")
    if params.get("logprobs"):
        raise InvalidRequest("logprobs is not supported: command-line agents do not report it.")
    if (wanted := _response_format(params)) not in (None, "text"):
        raise InvalidRequest(
            f"response_format {wanted} is not supported: a command-line agent cannot guarantee it. "
            "Ask for JSON in the messages instead."
        )


def _response_format(params: Mapping[str, Any]) -> str | None:
    wanted = params.get("response_format")
    if isinstance(wanted, Mapping):
        return str(wanted.get("type"))
    return None if wanted is None else getattr(wanted, "__name__", str(wanted))


def _read_message(where: str, message: Mapping[str, Any]) -> ChatMessage:
    role = message.get("role")
    if role not in _ROLES:
        raise InvalidRequest(
            f"{where}: the role {role!r} is not supported: "
            "command-line agents know system, user and assistant."
        )
    for name in ("tool_calls", "function_call", "audio"):
        if message.get(name):
            raise InvalidRequest(f"{where}: {name} is not supported: command-line agents take text only.")
    return ChatMessage(_ROLES[role], _read_content(where, message.get("content")))


def _read_content(where: str, content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, Sequence):
        raise InvalidRequest(f"{where}: content must be a string or a list of parts.")
    return "\n".join(_read_part(f"{where}.content[{number}]", part) for number, part in enumerate(content))


def _read_part(where: str, part: Any) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
    text = part.get("text") if isinstance(part, Mapping) else None
    if kind != "text" or not isinstance(text, str):
        raise InvalidRequest(
            f"{where}: a part of type {kind} is not supported: command-line agents take text only."
        )
    return text
