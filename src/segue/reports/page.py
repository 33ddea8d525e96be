"""Reports as one page that stands alone: no script, nothing fetched, everything escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from segue.reports.charts import chart, scale_of
from segue.reports.lanes import PHASES, lanes
from segue.reports.report import Cell, Report, Runs, Table
from segue.reports.wording import duration, heading, wording

MOST_ROWS = 100
"""Rows of a table on the page; JSON and CSV have all."""

_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What no page may hold, and what turns the direction of the text around it."""

_MOST_RUNS = 8
_WORD = 20
"""A single word of this length is not broken into two lines."""

_MOST_TEXT = 600
_MOST_SOURCE = 120


@dataclass(frozen=True, slots=True)
class PageCell:
    """A cell of the page."""

    label: str
    text: str
    drawing: str
    kind: str


def page(reports: Sequence[Report], title: str, made: str) -> str:
    """The page as HTML; `made` says when and of what it was made."""
    from importlib.resources import files

    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals.update(
        heading=heading,
        rows=page_rows,
        lanes=lanes,
        used_phases=used_phases,
        most_rows=MOST_ROWS,
    )
    source = (files("segue.reports") / "templates" / "report.html").read_text(encoding="utf-8")
    return _UNFIT.sub(" ", environment.from_string(source).render(reports=reports, title=title, made=made))


def page_rows(table: Table) -> list[list[PageCell]]:
    """The rows as the page shows them, with a chart where a cell has one."""
    scales = {name: _scales(table, place) for place, name in enumerate(table.columns)}
    return [
        [
            _cell(name, cell, scales[name].get(_unit(cell), 0.0))
            for name, cell in zip(table.columns, row, strict=True)
        ]
        for row in table.rows[:MOST_ROWS]
    ]


def used_phases(report: Report) -> list[str]:
    """The phases that occur in a timeline, for its legend."""
    bars = [bar for lane in report.timeline.lanes for bar in lane.bars] if report.timeline else []
    used = {bar.phase if bar.phase in PHASES else "other" for bar in bars}
    return [phase for phase in (*PHASES, "other") if phase in used]


def _cell(name: str, cell: Cell, scale: float) -> PageCell:
    drawing = chart(cell, name, scale)
    kind = "runs" if isinstance(cell, Runs) else "figure"
    if isinstance(cell, str):
        kind = "word" if len(cell) <= _WORD and " " not in cell else "text"
    return PageCell(heading(name), _text(cell, name), drawing, kind)


def _text(cell: Cell, name: str) -> str:
    if isinstance(cell, Runs):
        more = len(cell.ids) - _MOST_RUNS
        return " ".join(cell.ids[:_MOST_RUNS]) + (f" and {more} more" if more > 0 else "")
    if name == "begin" and isinstance(cell, float):
        return duration(cell)
    text, most = wording(cell, name), _MOST_SOURCE if name == "source" else _MOST_TEXT
    return text if len(text) <= most else text[: most - 1] + "…"


def _scales(table: Table, place: int) -> dict[str, float]:
    """The end of the axis of a column, apart for every unit in it."""
    units: dict[str, list[Cell]] = {}
    for row in table.rows[:MOST_ROWS]:
        units.setdefault(_unit(row[place]), []).append(row[place])
    return {unit: scale_of(cells) for unit, cells in units.items()}


def _unit(cell: Cell) -> str:
    return getattr(cell, "unit", "")
