"""Renders proof cards as one self-contained page: no script, nothing fetched, everything escaped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from segue.domain.text import plain
from segue.reports.card.layout import CardLayout, quote_lines

if TYPE_CHECKING:
    from jinja2 import Environment

_MOST_TEXT = 1000
_MOST_QUOTE = 4000


def render_cards(cards: Sequence[CardLayout], title: str, made: str) -> str:
    """Render the page with proof cards; `made` says when and by what it was made."""
    environment = create_environment("segue.reports")
    environment.filters.update(
        line=lambda text: plain(text, _MOST_TEXT),
        lines=lambda text: "\n".join(quote_lines(text, _MOST_QUOTE)),
    )
    return environment.get_template("proof.html").render(cards=cards, title=title, made=made)


def create_environment(*packages: str, **more: Any) -> Environment:
    """Create an environment for the templates of these packages, in which everything is escaped."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        **more,
    )
