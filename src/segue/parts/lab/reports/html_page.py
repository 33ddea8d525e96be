"""Renders reports as one self-contained page: no script, nothing fetched, everything escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from segue.parts.lab.reports.page_table import MOST_ROWS, present_table
from segue.parts.lab.reports.pivot import SHADES
from segue.parts.lab.reports.report import DatasetReport
from segue.reports.card.page import create_environment
from segue.reports.drawing import (
    COLOURS,
    colour_phase,
    draw_timeline,
    escape_text,
    label_phase,
    list_phases,
)

if TYPE_CHECKING:
    from jinja2 import Template

    from segue.parts.lab.reports.figures.scatter import Link

_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, and characters that reverse the direction of text."""


def render_html(reports: Sequence[DatasetReport], title: str, made: str) -> str:
    """Render the page; `made` says when and by what it was made."""
    shown = [
        (report, [present_table(table, _link_rows(table.name)) for table in report.tables])
        for report in reports
    ]
    return _FORBIDDEN.sub(" ", _load_template().render(reports=shown, title=title, made=made))


@cache
def _load_template() -> Template:
    environment = create_environment("segue.parts.lab")
    environment.globals.update(
        draw_timeline=draw_timeline,
        list_phases=list_phases,
        label_phase=label_phase,
        colour_phase=colour_phase,
        colours=COLOURS,
        most_rows=MOST_ROWS,
        shades=SHADES,
    )
    return environment.get_template("report_file.html")


def _link_rows(table: str) -> Link:
    """Lead every name in a figure to the rows below it."""
    return lambda _name: f"#rows-{escape_text(table)}"
