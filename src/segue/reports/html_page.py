"""Renders reports as one self-contained page: no script, nothing fetched, everything escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from segue.reports.charts import draw_cell, find_scale
from segue.reports.formatting import format_cell, format_heading
from segue.reports.pivot import MATRIX, SHADES, pivot
from segue.reports.report import Cell, DatasetReport, ReportTable, RunIds
from segue.reports.timeline_svg import COLOURS, colour_phase, draw_timeline, label_phase, list_phases
from segue.view.amounts import format_duration

MOST_ROWS = 100
"""Rows of a table on the page; JSON and CSV contain all."""

_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, and characters that reverse the direction of text."""

_MOST_RUNS = 8
_WORD = 20
"""A single word up to this length is not broken into two lines."""

_MOST_TEXT = 600
_MOST_SOURCE = 120


class PageCell(Struct, frozen=True):
    """A cell as the page shows it."""

    label: str
    text: str
    drawing: str
    kind: str


def render_html(reports: Sequence[DatasetReport], title: str, made: str) -> str:
    """Render the page; `made` says when and by what it was made."""
    from importlib.resources import files

    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals.update(
        heading=format_heading,
        rows=format_rows,
        draw_timeline=draw_timeline,
        list_phases=list_phases,
        label_phase=label_phase,
        colour_phase=colour_phase,
        colours=COLOURS,
        most_rows=MOST_ROWS,
        matrix=MATRIX,
        pivot=pivot,
        shades=SHADES,
    )
    source = (files("segue.reports") / "templates" / "report.html").read_text(encoding="utf-8")
    return _FORBIDDEN.sub(
        " ", environment.from_string(source).render(reports=reports, title=title, made=made)
    )


def format_rows(table: ReportTable) -> list[list[PageCell]]:
    """Return the rows as the page shows them, with a chart where a cell has one."""
    scales = {name: _find_scales(table, place) for place, name in enumerate(table.columns)}
    return [
        [
            _render_cell(name, cell, scales[name].get(_get_unit(cell), 0.0))
            for name, cell in zip(table.columns, row, strict=True)
        ]
        for row in table.rows[:MOST_ROWS]
    ]


def _render_cell(name: str, cell: Cell, scale: float) -> PageCell:
    drawing = draw_cell(cell, name, scale)
    kind = "runs" if isinstance(cell, RunIds) else "figure"
    if isinstance(cell, str):
        kind = "word" if len(cell) <= _WORD and " " not in cell else "text"
    return PageCell(format_heading(name), _format_text(cell, name), drawing, kind)


def _format_text(cell: Cell, name: str) -> str:
    if isinstance(cell, RunIds):
        more = len(cell.ids) - _MOST_RUNS
        return " ".join(cell.ids[:_MOST_RUNS]) + (f" and {more} more" if more > 0 else "")
    if name == "begin" and isinstance(cell, float):
        return format_duration(cell)
    text, most = format_cell(cell, name), _MOST_SOURCE if name == "source" else _MOST_TEXT
    return text if len(text) <= most else text[: most - 1] + "…"


def _find_scales(table: ReportTable, place: int) -> dict[str, float]:
    """Return the end of the axis of a column for every unit in it."""
    units: dict[str, list[Cell]] = {}
    for row in table.rows[:MOST_ROWS]:
        units.setdefault(_get_unit(row[place]), []).append(row[place])
    return {unit: find_scale(cells) for unit, cells in units.items()}


def _get_unit(cell: Cell) -> str:
    return getattr(cell, "unit", "")
