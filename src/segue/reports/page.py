"""Reports as one page that stands alone: no script, nothing fetched, everything escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from segue.reports.charts import chart, scale_of
from segue.reports.lanes import PHASES, lanes
from segue.reports.report import Cell, Report, Runs, Table
from segue.reports.wording import duration, heading, wording

MOST_ROWS = 100
"""Rows of a table on the page; JSON and CSV have all."""

_MOST_RUNS = 8
_WORD = 20
"""A single word of this length is not broken into two lines."""

_MOST_TEXT = 600


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
    from markupsafe import Markup

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals.update(
        heading=heading,
        rows=page_rows,
        lanes=lambda timeline: Markup(lanes(timeline)),  # noqa: S704 - escapes every text itself
        drawn=lambda cell: Markup(cell.drawing),  # noqa: S704 - made by `charts`, which escapes
        used_phases=used_phases,
        most_rows=MOST_ROWS,
    )
    source = (files("segue.reports") / "templates" / "report.html").read_text(encoding="utf-8")
    text = environment.from_string(source).render(reports=reports, title=title, made=made)
    return text.encode("utf-8", "replace").decode()


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
    return PageCell(heading(name), _readable(_text(cell, name)), drawing, kind)


def _text(cell: Cell, name: str) -> str:
    if isinstance(cell, Runs):
        more = len(cell.ids) - _MOST_RUNS
        return " ".join(cell.ids[:_MOST_RUNS]) + (f" and {more} more" if more > 0 else "")
    if name == "begin" and isinstance(cell, float):
        return duration(cell)
    text = wording(cell, name)
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"


def _readable(text: str) -> str:
    """Without characters that no page may hold."""
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)


def _scales(table: Table, place: int) -> dict[str, float]:
    """The end of the axis of a column, apart for every unit in it."""
    units: dict[str, list[Cell]] = {}
    for row in table.rows[:MOST_ROWS]:
        units.setdefault(_unit(row[place]), []).append(row[place])
    return {unit: scale_of(cells) for unit, cells in units.items()}


def _unit(cell: Cell) -> str:
    return getattr(cell, "unit", "")
