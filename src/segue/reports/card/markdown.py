"""Proof cards as Markdown, for pull requests: what agents wrote links to nobody and closes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from segue.domain.text import plain
from segue.reports.card.layout import CardItem, CardLayout, quote_lines

_MOST_TEXT = 600
_MOST_QUOTE = 1000
_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#+|~!&$^-])")
_LINKS = re.compile(r"(@|\\#|://|\bGH(?=\\-)|\bwww(?=\.))", re.IGNORECASE)
"""What GitHub and GitLab turn into a mention, a reference that may close an issue, or a link."""


def render_markdown(cards: Sequence[CardLayout]) -> str:
    """Render cards as Markdown."""
    return "\n\n".join("\n".join(_render(card)) for card in cards) + "\n"


def _render(card: CardLayout) -> Iterator[str]:
    yield f"### {'✓' if card.proven else '·'} {escape_markdown(card.title)}"
    yield ""
    yield f"**{escape_markdown(card.conclusion)}**"
    yield ""
    if card.summary:
        yield escape_markdown(card.summary)
        yield ""
    for label, value in card.facts:
        yield f"- {label}: {escape_markdown(value)}"
    for section in card.sections:
        yield ""
        yield f"#### {section.title}"
        yield ""
        for item in section.items:
            yield from _render_item(item)


def _render_item(item: CardItem) -> Iterator[str]:
    sign = "" if item.sign == "-" else f"{item.sign} "
    yield f"- {sign}{escape_markdown(item.text)}"
    for note in item.notes:
        yield f"  - {escape_markdown(note)}"
    quote = quote_lines(item.quote, _MOST_QUOTE)
    if quote:
        longest = max((len(ticks) for line in quote for ticks in re.findall("`+", line)), default=0)
        fence = "`" * max(3, longest + 1)
        yield ""
        yield from (f"  {line}".rstrip() for line in (fence, *quote, fence))
        yield ""


def escape_markdown(text: str) -> str:
    """Return text of others so that it is shown as it is, and nothing more."""
    return _LINKS.sub(r"\1<!-- -->", _SPECIAL.sub(r"\\\1", plain(text, _MOST_TEXT)))
