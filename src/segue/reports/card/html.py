"""Proof cards as one self-contained page: no script, nothing fetched, everything escaped."""

from __future__ import annotations

from collections.abc import Sequence

from segue.domain.plain import plain
from segue.reports.card.layout import CardLayout, quote_lines

_MOST_TEXT = 1000
_MOST_QUOTE = 4000


def render_html(cards: Sequence[CardLayout], title: str, made: str) -> str:
    """Render the page; `made` says when and by what it was made."""
    from importlib.resources import files

    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        line=lambda text: plain(text, _MOST_TEXT),
        lines=lambda text: "\n".join(quote_lines(text, _MOST_QUOTE)),
    )
    source = (files("segue.reports") / "templates" / "proof.html").read_text(encoding="utf-8")
    return environment.from_string(source).render(cards=cards, title=title, made=made)
