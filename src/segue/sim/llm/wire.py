"""What the APIs of language models have in common on the wire."""

from __future__ import annotations

import json
from typing import Any

_PIECE = 16


class BadRequest(Exception):
    """The request is invalid; the text says why."""


def require_objects(body: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return a field that must be a non-empty list of objects."""
    value = body.get(name)
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
        raise BadRequest(f"Invalid type for '{name}': expected a non-empty array of objects.")
    return value


def join_text(content: Any) -> str:
    """Join the text of a message, a string or a list of parts; results of tools count as text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = []
    for part in content:
        if isinstance(part, dict):
            inner = part.get("text", part.get("content", ""))
            parts.append(join_text(inner))
    return "\n".join(part for part in parts if part)


def split_text(text: str) -> list[str]:
    """Split the text into small pieces, as a model would stream it."""
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]


def encode_data(data: dict[str, Any]) -> bytes:
    """Encode an event without a name."""
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def encode_event(data: dict[str, Any]) -> bytes:
    """Encode an event that is named after its type."""
    return f"event: {data['type']}\n".encode() + encode_data(data)
