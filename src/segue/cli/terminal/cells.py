"""Measure, cut and pad text by the cells that a terminal shows it in: letters of some scripts take two."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

_JOINER = "\u200d"
_WIDER = "\ufe0f"
"""Turns the character before it into an emoji."""


def width(text: str) -> int:
    """Return how many cells a text takes; never fewer than a terminal uses for it."""
    return len(text) if text.isascii() else sum(_cells(text))


def cut(text: str, room: int) -> str:
    """Return the text, cut with an ellipsis if it takes more cells than there is room for."""
    if width(text) <= room:
        return text
    total = list(accumulate(_cells(text)))
    return text[: bisect_right(total, room - 1)].rstrip(_JOINER) + "…" if room > 0 else ""


def pad(text: str, size: int, right: bool = False) -> str:
    """Return the text in exactly so many cells: cut, or filled with spaces."""
    shown = cut(text, size)
    space = " " * (size - width(shown))
    return space + shown if right else shown + space


def join(parts: Sequence[str], room: int) -> str:
    """Return as many parts as fit into the room, with dots between them; only the first is ever cut."""
    said = ""
    for part in filter(None, parts):
        longer = f"{said} · {part}" if said else cut(part, room)
        if width(longer) > room:
            break
        said = longer
    return said


def _cells(text: str) -> Iterator[int]:
    """Yield how many cells each character adds."""
    last = 0
    for char in text:
        if char == _WIDER:
            yield 2 - last if last else 0
            last = 2
            continue
        if char == _JOINER or unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me"):
            yield 0
            continue
        last = 2 if unicodedata.east_asian_width(char) in "WF" else 1
        yield last
