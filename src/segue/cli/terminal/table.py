"""Tables: aligned plain text to read and paste, or wrapped cells on a terminal."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate

import click

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


STYLES = {"done": "green", "PASS": "green", "running": "cyan", "FAIL": "red", "PARTIAL": "yellow"}
STYLES |= {
    "failed": "red",
    "needs_human": "red",
    "needs human": "red",
    "stopped": "yellow",
    "parked": "yellow",
    "pending": "dim",
}
STYLES |= {"queued": "yellow", "blocked": "yellow", "changed, not verified": "yellow"}
GAP = "  "
_TINY = 8
"""Less than this of a text says nothing."""


def draw(
    columns: Sequence[str], rows: Sequence[Sequence[str]], colored: bool = False, right: Collection[str] = ()
) -> list[str]:
    """Return the lines of a table with a heading; the columns named in `right` are aligned right."""
    lines = [[name.upper() for name in columns], *rows]
    widths = [max(map(width, cells)) for cells in zip(*lines, strict=True)]
    drawn = []
    for line in lines:
        cells = []
        for name, cell, size in zip(columns, line, widths, strict=True):
            text = pad(cell, size, name in right)
            cells.append(_paint(text, _style(cell)) if colored else text)
        drawn.append(GAP.join(cells).rstrip())
    return drawn


def fit_columns(
    widths: Mapping[str, int], least: Mapping[str, int], dropped: Sequence[str], room: int
) -> tuple[dict[str, int], int]:
    """Return the columns that fit into the room, each with its width, and the room that is left.

    Those in `least` shrink to what they need at least; if that is not enough, those in `dropped` go, one by
    one; if even that is not enough, what is left of `least` shrinks further.
    """
    sizes = {name: min(size, least.get(name, size)) for name, size in widths.items()}
    for name in dropped:
        if _total(sizes) <= room:
            break
        sizes.pop(name, None)
    for name in [name for name in sizes if name in least]:
        sizes[name] = max(min(sizes[name], _TINY), sizes[name] + min(0, room - _total(sizes)))
    return sizes, room - _total(sizes)


def _total(sizes: Mapping[str, int]) -> int:
    return sum(sizes.values()) + len(GAP) * (len(sizes) - 1)


def _style(cell: str) -> str:
    """Return the style of a cell: that of its text, or of the verdict it starts with."""
    return STYLES.get(cell) or STYLES.get(cell.partition(" (")[0], "")


def _paint(text: str, style: str) -> str:
    if not style:
        return text
    return click.style(text, dim=True) if style == "dim" else click.style(text, fg=style)


def print_wrapped(columns: Sequence[str], rows: Sequence[Sequence[str]], color: str) -> None:
    """Print a table for a terminal: long cells wrap, the first column never does."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for number, name in enumerate(columns):
        table.add_column(name, no_wrap=number == 0)
    for row in rows:
        table.add_row(*(Text(cell, style=_style(cell)) for cell in row))
    Console(force_terminal=True if color == "always" else None).print(table)
