"""Draws lines of a terminal, and boxes, as SVG without fonts or scripts from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape, unescape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

WIDTH, HEIGHT, PAD = 8.4, 18, 14
_COLOURS = {
    "red": "#f47067",
    "green": "#57ab5a",
    "yellow": "#c69026",
    "blue": "#539bf5",
    "cyan": "#39c5cf",
    "magenta": "#b083f0",
}
_INK, _DIM, _GROUND = "#adbac7", "#768390", "#22272e"
_TEXT = re.compile(r"<text[^>]*>(.*?)</text>", re.DOTALL)


def draw_terminal(lines: Sequence[str], title: str) -> str:
    """Return lines, with the colours that a program printed, as a picture of a terminal."""
    from rich.text import Text

    shown = [Text.from_ansi(line) for line in lines]
    columns = max((text.cell_len for text in shown), default=0)
    rows = [_draw_row(text, PAD + HEIGHT * (at + 1)) for at, text in enumerate(shown)]
    return _frame(2 * PAD + columns * WIDTH, 2 * PAD + HEIGHT * len(rows), title, rows)


def draw_stack(layers: Iterable[tuple[str, str]], title: str) -> str:
    """Return layers of a building, the highest first: each with its name and what it is."""
    rows, known = [], list(layers)
    names = max(len(name) for name, _ in known) * WIDTH + 30
    width = names + max(len(what) for _, what in known) * WIDTH + 10
    for at, (name, what) in enumerate(known):
        top = PAD + at * 34
        rows.append(f'<rect x="{PAD}" y="{top}" width="{width:g}" height="28" rx="4" fill="#2d333b"/>')
        rows.append(_text(PAD + 10, top + 19, name, _COLOURS["blue"], bold=True))
        rows.append(_text(PAD + names, top + 19, what, _INK))
    return _frame(2 * PAD + width, 2 * PAD + 34 * len(known), title, rows)


def read_texts(svg: str) -> list[str]:
    """Return what a picture says, a line each, without what differs from run to run."""
    found = (unescape(re.sub(r"<[^>]+>", "", text)) for text in _TEXT.findall(svg))
    return [settle(text) for text in found if text.strip()]


def settle(text: str) -> str:
    """Replace times, ids, durations and amounts: they differ from run to run."""
    text = re.sub(r"\d{8}-\d{6}-[0-9a-f]{4}", "RUN", text)
    text = re.sub(r"\b[0-9a-f]{10,40}\b", "COMMIT", text)
    text = re.sub(r"\b\d[\w:.,]*", "N", text)
    return re.sub(r"[ ─]+", " ", text).strip()


def _draw_row(text: Text, y: float) -> str:
    from rich.console import Console

    console, parts = Console(), []
    column = 0
    for piece in text.divide([edge for span in text.spans for edge in (span.start, span.end)]):
        style = piece.get_style_at_offset(console, 0) if piece.plain else None
        name = style.color.name if style is not None and style.color is not None else ""
        colour = _COLOURS.get(name, _DIM if style is not None and style.dim else _INK)
        weight = ' font-weight="bold"' if style is not None and style.bold else ""
        x = PAD + column * WIDTH
        if piece.plain:
            parts.append(f'<tspan x="{x:g}" fill="{colour}"{weight}>{escape(piece.plain)}</tspan>')
        column += piece.cell_len
    return f'<text y="{y:g}" xml:space="preserve">{"".join(parts)}</text>'


def _text(x: float, y: float, words: str, colour: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" fill="{colour}"{weight}>{escape(words)}</text>'


def _frame(width: float, height: float, title: str, rows: Iterable[str]) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img"'
            ' font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14">',
            f"<title>{escape(title)}</title>",
            f'<rect width="100%" height="100%" rx="8" fill="{_GROUND}"/>',
            *rows,
            "</svg>",
            "",
        ]
    )
