"""What the APIs have in common on the wire."""

from __future__ import annotations

import json
from typing import Any

_PIECE = 16


class BadRequest(Exception):
    """The request is not one; the text says why."""


def objects(body: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """A field that must be a list of objects with something in it."""
    value = body.get(name)
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
        raise BadRequest(f"Invalid type for '{name}': expected a non-empty array of objects.")
    return value


def text_of(content: Any) -> str:
    """The text of a message, which may be a string or a list of parts; results of tools count as text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = []
    for part in content:
        if isinstance(part, dict):
            inner = part.get("text", part.get("content", ""))
            parts.append(text_of(inner))
    return "\n".join(part for part in parts if part)


def pieces(text: str) -> list[str]:
    """The text in small pieces, as a model would stream it."""
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]


def data_line(data: dict[str, Any]) -> bytes:
    """An event without a name."""
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def event(data: dict[str, Any]) -> bytes:
    """An event that is named after its type."""
    return f"event: {data['type']}\n".encode() + data_line(data)
