"""Read JSON of unknown shape, and keep it small. Standard library only: child processes import this too."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from segue.system.shapes import unfinished

Json = Mapping[str, Any]

TEXT_CHARS = 64 * 1024
"""How much of a message one event has; a longer one becomes several."""

_STRING_CHARS = 2000
_EVENT_CHARS = 16_000
_ITEMS = 40
_DEPTH = 6


def parse_object(text: str) -> Json | None:
    """Return the JSON object in a text; None if it is anything else."""
    try:
        # Databases refuse NaN and Infinity.
        value = json.loads(text, parse_constant=lambda _name: None)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def as_table(value: Any) -> Json:
    """Return the value if it is a JSON object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """Return the value if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def as_count(value: Any) -> int:
    """Return the value if it is a positive integer, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def as_money(value: Any) -> float | None:
    """Return the value if it is a plausible amount, else None."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 1e9 else None


def clip(text: str, size: int) -> str:
    """Return the beginning of a text, and how much was cut."""
    return text if len(text) <= size else f"{text[:size]}…[{len(text) - size} characters cut]"


def split(text: str, size: int) -> Iterator[str]:
    """Yield the pieces of a long text. They end with a word where possible, and no key is in two of them."""
    start = 0
    while len(text) - start > size:
        end = max(text.rfind(space, start, start + size) for space in "\n \t") + 1 or start + size
        end = start + (unfinished(text[start:end]) or end - start)
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def shrink(value: Any) -> Any:
    """Return the value, small enough to be stored: long texts and lists are cut, or else the whole."""
    cut = _cut(value, _DEPTH)
    text = json.dumps(cut, ensure_ascii=False)
    return cut if len(text) <= _EVENT_CHARS else {"cut": text[:_STRING_CHARS]}


def _cut(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return clip(value, _STRING_CHARS)
    if not isinstance(value, dict | list):
        return value
    if depth == 0:
        return "…"
    if isinstance(value, list):
        return [_cut(item, depth - 1) for item in value[:_ITEMS]]
    return {clip(key, 100): _cut(item, depth - 1) for key, item in list(value.items())[:_ITEMS]}
