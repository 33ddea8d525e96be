"""Proof cards as one self-contained page: no script, nothing fetched, everything escaped."""

from __future__ import annotations

from collections.abc import Sequence

from segue.domain.plain import plain
from segue.reports.card.layout import CardLayout, quote_lines
from segue.reports.html_page import create_environment

_MOST_TEXT = 1000
_MOST_QUOTE = 4000


def render_html(cards: Sequence[CardLayout], title: str, made: str) -> str:
    """Render the page; `made` says when and by what it was made."""
    environment = create_environment()
    environment.filters.update(
        line=lambda text: plain(text, _MOST_TEXT),
        lines=lambda text: "\n".join(quote_lines(text, _MOST_QUOTE)),
    )
    return environment.get_template("proof.html").render(cards=cards, title=title, made=made)
