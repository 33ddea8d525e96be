"""Proof cards as plain text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from segue.domain.text import plain
from segue.reports.card.layout import CardItem, CardLayout, quote_lines

WIDTH = 80
_MOST_TEXT = 600
_MOST_QUOTE = 400
_LABEL = 14


def render_text(cards: Sequence[CardLayout], width: int = WIDTH) -> str:
    """Render cards as lines of at most `width` characters, without control characters."""
    return "\n\n".join("\n".join(_render(card, max(40, width))) for card in cards)


def _render(card: CardLayout, width: int) -> Iterator[str]:
    yield from _wrap(f"{_safe(card.title)} [{_safe(card.conclusion)}]", width)
    yield "─" * width
    if card.summary:
        yield from _wrap(_safe(card.summary), width)
    for label, value in card.facts:
        yield from _wrap(_safe(value), width, label.ljust(_LABEL), " " * _LABEL)
    for section in card.sections:
        yield ""
        yield section.title
        for item in section.items:
            yield from _render_item(item, width)


def _render_item(item: CardItem, width: int) -> Iterator[str]:
    yield from _wrap(_safe(item.text), width, f"  {item.sign} ", "    ")
    for note in item.notes:
        yield from _wrap(_safe(note), width, "    ", "      ")
    for line in quote_lines(item.quote, _MOST_QUOTE):
        yield from _wrap(line, width, "    │ ", "    │ ")


def _safe(text: str) -> str:
    return plain(text, _MOST_TEXT)


def _wrap(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest) or [first.rstrip()]
