"""What a caller asks for: chat messages as LiteLLM hands them over, read strictly.

Command-line agents take text and give text. What cannot be given to them is refused, never left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from segue.prompts.transcript import ChatMessage, Speaker

_ROLES = {
    "system": Speaker.SYSTEM,
    "developer": Speaker.SYSTEM,
    "user": Speaker.USER,
    "assistant": Speaker.ASSISTANT,
}
_NOT_OFFERED = ("tools", "functions", "function_call", "audio", "prediction", "web_search_options")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+=,\[\]-]{0,199}")


class Refused(ValueError):
    """The request cannot be carried out as it is; the caller must change it."""


def read_messages(messages: Sequence[Any]) -> list[ChatMessage]:
    """The conversation; raises Refused for anything but text."""
    if not messages:
        raise Refused("messages is empty: there is nothing to answer.")
    return [_message(number, dict(message)) for number, message in enumerate(messages)]


def check_params(params: Mapping[str, Any]) -> None:
    """Raise Refused for parameters that change what an answer is; those that only tune it are ignored."""
    for name in _NOT_OFFERED:
        if params.get(name):
            raise Refused(f"{name} is not offered: command-line agents answer with text alone.")
    if params.get("tool_choice") not in (None, "none"):
        raise Refused("tool_choice is not offered: command-line agents answer with text alone.")
    if (params.get("n") or 1) != 1:
        raise Refused("n must be 1: a command-line agent gives one answer.")
    if params.get("logprobs"):
        raise Refused("logprobs is not offered: command-line agents do not report it.")
    if _format(params) not in (None, "text"):
        raise Refused(
            f"response_format {_format(params)} is not offered: a command-line agent cannot be held to it. "
            "Ask for JSON in the messages instead."
        )


def check_model(model: str) -> str:
    """The model's name, if it can be nothing but a name: it becomes an argument of a program."""
    if not _MODEL.fullmatch(model):
        raise Refused(f"{model!r} is not the name of a model.")
    return model


def _format(params: Mapping[str, Any]) -> str | None:
    wanted = params.get("response_format")
    if isinstance(wanted, Mapping):
        return str(wanted.get("type"))
    return None if wanted is None else getattr(wanted, "__name__", str(wanted))


def _message(number: int, message: Mapping[str, Any]) -> ChatMessage:
    where = f"messages[{number}]"
    role = message.get("role")
    if role not in _ROLES:
        raise Refused(
            f"{where}: the role {role!r} is not offered: command-line agents know system, user and assistant."
        )
    for name in ("tool_calls", "function_call", "audio"):
        if message.get(name):
            raise Refused(f"{where}: {name} is not offered: command-line agents take text alone.")
    return ChatMessage(_ROLES[role], _text(where, message.get("content")))


def _text(where: str, content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, Sequence):
        raise Refused(f"{where}: content must be a text or a list of parts.")
    return "\n".join(_part(f"{where}.content[{number}]", part) for number, part in enumerate(content))


def _part(where: str, part: Any) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
    text = part.get("text") if isinstance(part, Mapping) else None
    if kind != "text" or not isinstance(text, str):
        raise Refused(f"{where}: a part of type {kind} is not offered: command-line agents take text alone.")
    return text
