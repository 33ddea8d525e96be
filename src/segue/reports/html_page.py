"""Renders reports as one self-contained page: no script, nothing fetched, everything escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from segue.domain.text import plain
from segue.reports.card.layout import CardLayout, quote_lines
from segue.reports.charts import escape_text
from segue.reports.figures.scatter import Link
from segue.reports.figures.timeline import COLOURS, colour_phase, draw_timeline, label_phase, list_phases
from segue.reports.page_table import MOST_ROWS, present_table
from segue.reports.pivot import SHADES
from segue.reports.report import DatasetReport

if TYPE_CHECKING:
    from jinja2 import Environment, Template

_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, and characters that reverse the direction of text."""
_MOST_TEXT = 1000
_MOST_QUOTE = 4000


def render_html(reports: Sequence[DatasetReport], title: str, made: str) -> str:
    """Render the page; `made` says when and by what it was made."""
    shown = [
        (report, [present_table(table, _link_rows(table.name)) for table in report.tables])
        for report in reports
    ]
    return _FORBIDDEN.sub(" ", _load_template().render(reports=shown, title=title, made=made))


def render_cards(cards: Sequence[CardLayout], title: str, made: str) -> str:
    """Render the page with proof cards; `made` says when and by what it was made."""
    environment = create_environment()
    environment.filters.update(
        line=lambda text: plain(text, _MOST_TEXT),
        lines=lambda text: "\n".join(quote_lines(text, _MOST_QUOTE)),
    )
    return environment.get_template("proof.html").render(cards=cards, title=title, made=made)


def create_environment(**more: Any) -> Environment:
    """Create an environment for templates of pages, in which everything is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    more.setdefault("loader", PackageLoader("segue.reports"))
    return Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        **more,
    )


@cache
def _load_template() -> Template:
    environment = create_environment()
    environment.globals.update(
        draw_timeline=draw_timeline,
        list_phases=list_phases,
        label_phase=label_phase,
        colour_phase=colour_phase,
        colours=COLOURS,
        most_rows=MOST_ROWS,
        shades=SHADES,
    )
    return environment.get_template("report.html")


def _link_rows(table: str) -> Link:
    """Lead every name in a figure to the rows below it."""
    return lambda _name: f"#rows-{escape_text(table)}"
