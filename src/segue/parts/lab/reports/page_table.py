"""A table of a report as pages show it, with bars and a figure; and reports as a page of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.amounts import format_count, format_duration
from segue.domain.text import cut_text
from segue.parts.lab.reports.axes import draw_cell, find_scale
from segue.parts.lab.reports.figures import Link, draw_forest, draw_scatter, draw_trend
from segue.parts.lab.reports.gaps import MATRIX, SHADES, Matrix, pivot
from segue.parts.lab.reports.report import (
    Cell,
    DatasetReport,
    ReportTable,
    RunIds,
    format_cell,
    format_heading,
)
from segue.parts.lab.reports.statistics import NO_DIFFERENCE, TOO_FEW
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

    from segue.parts.lab.reports.figures import Link
from segue.parts.lab.reports.figures import Link

MOST_ROWS = 100
"""Rows of a table on the page; JSON and CSV contain all."""

_DRAWINGS: dict[str, Callable[[ReportTable, float, Link], str]] = {
    "by_setting": draw_scatter,
    "trend": draw_trend,
    "actions": draw_forest,
    "randomised_actions": draw_forest,
    "arms": draw_forest,
}
"""How tables are drawn, by their name."""

_WIDTHS = {"broad": 760.0, "slim": 360.0}
"""The widths of drawings: one for each kind of window, because letters must not shrink with it."""

_MOST_RUNS = 8
_WORD = 20
"""A single word up to this length is not broken into two lines."""

_MOST_TEXT = 600
_MOST_SOURCE = 90


class PageCell(Struct, frozen=True):
    """A cell as the page shows it."""

    label: str
    text: str
    drawing: str
    kind: str
    tip: str = ""
    """The tooltip."""
    link: str = ""
    """The page with the evidence behind it."""
    runs: tuple[tuple[str, str], ...] = ()
    """Runs with their links."""
    more: int = 0
    """How many runs are not listed."""
    whole: str = ""
    """The whole text, where it is shortened."""
    small: str = ""
    """Interval and counts, below the value, where there is little room."""


PageRows = list[list[PageCell]]
Decorate = Callable[[PageCell, Cell, str, Mapping[str, Cell]], PageCell]
"""Adds links and tooltips to a cell: what is shown, the cell, its column and its row."""


class PageGroup(Struct, frozen=True):
    """The settings of one source, side by side on scales of their own."""

    name: str
    whole: str
    rows: PageRows


class PageTable(Struct, frozen=True):
    """One table with everything a page shows of it."""

    name: str
    title: str
    note: str
    headings: tuple[str, ...]
    rows: PageRows
    total: int
    drawing: str = ""
    sql: str = ""
    matrix: Matrix | None = None
    groups: tuple[PageGroup, ...] = ()
    folded: PageRows = []
    """Rows that say little: sources with a single setting, pairs without a difference."""
    about_folded: str = ""


def present_table(table: ReportTable, link: Link, decorate: Decorate | None = None) -> PageTable:
    """Prepare a table for a page; `link` says where the names in its figure lead."""
    look = decorate or _leave
    arrange = _ARRANGED.get(table.name)
    whole = PageTable(
        table.name,
        table.title,
        table.note,
        tuple(map(format_heading, table.columns)),
        [] if arrange else format_rows(table, look),
        len(table.rows),
        draw_figure(table, link),
        table.sql,
        pivot(table) if table.name == MATRIX and table.rows else None,
    )
    return arrange(whole, table, look) if arrange else whole


def _arrange_settings(whole: PageTable, table: ReportTable, look: Decorate) -> PageTable:
    """Group the settings by source; a source with one setting compares nothing."""
    sources: dict[str, list[tuple[Cell, ...]]] = {}
    for row in table.rows[:MOST_ROWS]:
        sources.setdefault(str(row[0]), []).append(row)
    several = {source: rows for source, rows in sources.items() if len(rows) > 1}
    alone = [row for source, rows in sources.items() if source not in several for row in rows]
    groups = tuple(
        PageGroup(name_source(source), source, _stack(_format(table, rows, look)))
        for source, rows in several.items()
    )
    about = f"{format_count(len(alone), 'source')} with one setting only: nothing to compare" if alone else ""
    return replace(whole, groups=groups, folded=_format(table, alone, look), about_folded=about)


def _arrange_differences(whole: PageTable, table: ReportTable, look: Decorate) -> PageTable:
    """Show what differs; fold pairs without a difference, and those with too few runs."""
    place = table.columns.index("says")
    shown = [row for row in table.rows if row[place] not in (NO_DIFFERENCE, TOO_FEW)]
    others = [row for row in table.rows if row[place] in (NO_DIFFERENCE, TOO_FEW)]
    about = f"{len(others)} comparisons without a significant difference" if others else ""
    rows, folded = (_format(table, part, look) for part in (shown, others))
    return replace(whole, rows=rows, folded=folded, about_folded=about)


def _stack(rows: PageRows) -> PageRows:
    """Put intervals and counts below the values, and leave out the source, which is above the table."""
    return [[_stack_cell(cell) for cell in row[1:]] for row in rows]


def _stack_cell(cell: PageCell) -> PageCell:
    head, bracket, limits = cell.text.partition(" [")
    if cell.kind != "figure" or not (bracket or "%" in head):
        return cell
    *counted, value = head.split(" ")
    basis = f"{limits.partition(']')[0]}]" if bracket else ""
    parts = (bracket.strip() + basis, " ".join(counted), limits.partition("]")[2].strip())
    return replace(cell, text=value, small=" ".join(part for part in parts if part))


_ARRANGED = {"settings": _arrange_settings, "differences": _arrange_differences}


def _format(table: ReportTable, rows: Sequence[tuple[Cell, ...]], look: Decorate) -> PageRows:
    return format_rows(replace(table, rows=tuple(rows)), look)


def format_rows(table: ReportTable, look: Decorate) -> PageRows:
    """Return the rows as the page shows them, with a chart where a cell has one."""
    scales = {name: _find_scales(table, place) for place, name in enumerate(table.columns)}
    return [
        [
            look(_render_cell(name, cell, scales[name].get(_get_unit(cell), 0.0)), cell, name, row)
            for name, cell in row.items()
        ]
        for row in table.records()[:MOST_ROWS]
    ]


def name_source(source: str) -> str:
    """Name a source briefly: the end of a path, the beginning of a prompt."""
    path = PurePath(source)
    if path.is_absolute() and len(path.parts) > 3:
        return "/".join(("…", *path.parts[-2:]))
    return cut_text(source, _MOST_SOURCE)


def _leave(shown: PageCell, *_of: object) -> PageCell:
    return shown


def _render_cell(name: str, cell: Cell, scale: float) -> PageCell:
    drawing = draw_cell(cell, name, scale)
    kind = "runs" if isinstance(cell, RunIds) else "figure"
    if isinstance(cell, str):
        kind = "word" if len(cell) <= _WORD and " " not in cell else "text"
    text = _format_text(cell, name)
    whole = cell if isinstance(cell, str) and cell != text else ""
    return PageCell(format_heading(name), text, drawing, kind, whole=whole)


def _format_text(cell: Cell, name: str) -> str:
    if isinstance(cell, RunIds):
        more = len(cell.ids) - _MOST_RUNS
        return " ".join(cell.ids[:_MOST_RUNS]) + (f" and {more} more" if more > 0 else "")
    if name == "begin" and isinstance(cell, float):
        return format_duration(cell)
    if name == "source" and isinstance(cell, str):
        return name_source(cell)
    return cut_text(format_cell(cell, name), _MOST_TEXT)


def _find_scales(table: ReportTable, place: int) -> dict[str, float]:
    """Return the end of the axis of a column for every unit in it."""
    units: dict[str, list[Cell]] = {}
    for row in table.rows[:MOST_ROWS]:
        units.setdefault(_get_unit(row[place]), []).append(row[place])
    return {unit: find_scale(cells) for unit, cells in units.items()}


def _get_unit(cell: Cell) -> str:
    return getattr(cell, "unit", "")


def count_drawn(table: ReportTable) -> int:
    """Return how many rows the figure of a table needs: all, or none where it has no figure."""
    return len(table.rows) if table.name in _DRAWINGS or table.name == MATRIX else 0


def draw_figure(table: ReportTable, link: Link) -> str:
    """Draw the figure of a table, once per kind of window; empty if it has none, or nothing to draw."""
    draw = _DRAWINGS.get(table.name)
    drawn = {kind: draw(table, width, link) for kind, width in _WIDTHS.items()} if draw else {}
    return "".join(f'<div class="{kind}">{found}</div>' for kind, found in drawn.items() if found)


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
