"""Reports in the terminal: tables and small bars, at most a hundred columns wide."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from segue.cli.terminal.output import Printer, clean, one_line
from segue.domain.amounts import format_count
from segue.features.dataset.reports.gaps import MATRIX, pivot
from segue.features.dataset.reports.report import (
    NOTHING,
    Cell,
    DatasetReport,
    ReportTable,
    RunIds,
    format_cell,
    format_heading,
)
from segue.features.dataset.reports.statistics import Proportion

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 100
"""The maximum width, however wide the terminal is."""

SHOWN: dict[str, tuple[str, ...]] = {
    "tasks": ("task", "build_phase", "failed", "runs"),
    "errors": ("signature", "kind", "build_phases", "seen_in", "runs"),
}
"""The columns to show; other tables show all of theirs."""

LONG = ("tasks", "errors", "searches_by_topic", "searches_by_source", "differences")
"""Tables that grow with the dataset: only the first rows are shown."""

_EIGHTHS = " ▏▎▍▌▋▊▉"
_BAR = 8
_NARROW = {"build_phases": 22, "signature": 90}
_SETTINGS_SIDE_BY_SIDE = 4
_SPACE = 2
"""Between columns."""


def print_reports(reports: Sequence[DatasetReport], output: Printer, limit: int) -> None:
    """Print the reports."""
    from rich.console import Console

    columns = min(WIDTH, max(40, shutil.get_terminal_size((WIDTH, 24)).columns))
    colored = output.colored()
    # Without colour, print no escape sequences at all, not even for bold.
    console = Console(
        file=sys.stdout,
        width=columns,
        highlight=False,
        color_system="auto" if colored else None,
        force_terminal=colored,
        legacy_windows=False,
    )
    for report in reports:
        _print_report(report, console, limit)


def _print_report(report: DatasetReport, console: Console, limit: int) -> None:
    from rich.text import Text

    kind = f" of kind {report.kind}" if report.kind else ""
    basis = f"  (from {format_count(report.runs, 'run')}{kind})"
    console.print(Text(f"{clean(report.title)}{basis}", style="bold"))
    for note in report.notes:
        console.print(Text(clean(note)))
    for table in report.tables:
        for part in _split_table(table, limit):
            _print_table(part, console, limit if part.name in LONG else len(part.rows))
    console.print()


def _print_table(table: ReportTable, console: Console, limit: int) -> None:
    from rich.text import Text

    console.print()
    if not table.rows:
        console.print(Text(f"{clean(table.title)}: nothing to show.", style="dim"))
        return
    places = [table.columns.index(name) for name in SHOWN.get(table.name, table.columns)]
    if not _fits(table, places, console.width, limit):
        _print_records(table, places, console, limit)
    else:
        _print_rows(table, places, console, limit)
    if len(table.rows) > limit:
        more = len(table.rows) - limit
        console.print(Text(f"… {more} more: --limit {len(table.rows)}, or all with --json", style="dim"))
    if table.note:
        console.print(Text(table.note, style="dim"))


def _fits(table: ReportTable, places: Sequence[int], width: int, limit: int) -> bool:
    """Return whether no word of a cell or heading has to be broken."""
    needed = 0
    for place in places:
        name = table.columns[place]
        cells = [row[place] for row in table.rows[:limit]]
        figure = any(isinstance(cell, Proportion | RunIds) for cell in cells)
        texts = [_cell(cell, name) for cell in cells]
        words = [word for text in (*(() if figure else texts), format_heading(name)) for word in text.split()]
        needed += _SPACE + max(map(len, (*words, *(texts if figure else ()))), default=0)
    return needed <= width


def _print_records(table: ReportTable, places: Sequence[int], console: Console, limit: int) -> None:
    """Print each row as lines with their labels, where the columns have no room side by side."""
    from rich.text import Text

    console.print(Text(clean(table.title), style="italic"))
    names = [format_heading(table.columns[place]) for place in places]
    left = max(map(len, names)) + 2
    for row in table.rows[:limit]:
        console.print()
        for name, place in zip(names, places, strict=True):
            text = _cell(row[place], table.columns[place])
            if text != NOTHING:
                lines = textwrap.wrap(text, max(20, console.width - left)) or [""]
                console.print(Text(f"{name:<{left}}{lines[0]}"))
                for line in lines[1:]:
                    console.print(Text(" " * left + line))


def _print_rows(table: ReportTable, places: Sequence[int], console: Console, limit: int) -> None:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(
        box=box.SIMPLE_HEAD, title=Text(clean(table.title)), title_justify="left", pad_edge=False
    )
    for place in places:
        figure = any(isinstance(row[place], Proportion | RunIds) for row in table.rows)
        drawn.add_column(Text(clean(format_heading(table.columns[place]))), no_wrap=figure, overflow="fold")
    for row in table.rows[:limit]:
        drawn.add_row(*(Text(_cell(row[place], table.columns[place])) for place in places))
    console.print(drawn)


def _cell(cell: Cell, column: str) -> str:
    text = clean(format_cell(cell, column))
    if isinstance(cell, Proportion) and cell.value is not None and column != "seen_in":
        return f"{bar(cell.value)} {text}"
    return one_line(text, _NARROW.get(column, 160))


def bar(share: float) -> str:
    """Return a bar of eight characters, accurate to an eighth of a character."""
    eighths = round(max(0.0, min(1.0, share)) * _BAR * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(_BAR, "·")


def _split_table(table: ReportTable, limit: int) -> Iterable[ReportTable]:
    """Yield the table as the terminal shows it: agents side by side where that is easier to compare."""
    if table.name == "settings":
        yield from _side_by_side(table, limit)
    elif table.name == MATRIX:
        yield from _show_matrix(table)
    else:
        yield table


def _show_matrix(table: ReportTable) -> Iterable[ReportTable]:
    """Yield the matrix of gaps, a few agents at a time."""
    matrix = pivot(table)
    for first in range(0, len(matrix.columns) or 1, _SETTINGS_SIDE_BY_SIDE):
        part = slice(first, first + _SETTINGS_SIDE_BY_SIDE)
        rows = tuple((name, *(cell.text for cell in cells[part])) for name, cells in matrix.rows)
        columns = (table.columns[0], *matrix.columns[part])
        last = first + _SETTINGS_SIDE_BY_SIDE >= len(matrix.columns)
        yield ReportTable(table.name, table.title, columns, rows, table.note if last else "")


def _side_by_side(table: ReportTable, limit: int) -> Iterable[ReportTable]:
    """Yield tables that show the settings of one source side by side, a line per measure."""
    sources = list(dict.fromkeys(row[0] for row in table.rows))
    if not sources:
        yield table
    for source in sources[:limit]:
        rows = [row for row in table.rows if row[0] == source]
        for first in range(0, len(rows), _SETTINGS_SIDE_BY_SIDE):
            group = rows[first : first + _SETTINGS_SIDE_BY_SIDE]
            names = ("measure", *(str(row[1]) for row in group))
            lines = [
                (format_heading(measure), *(format_cell(row[place], measure) for row in group))
                for place, measure in enumerate(table.columns)
                if place > 1
            ]
            title = f"{table.title}: {one_line(str(source), 60)}"
            last = source == sources[:limit][-1] and group[-1] is rows[-1]
            more = f"{len(sources) - limit} more sources: --json has all. " if len(sources) > limit else ""
            yield ReportTable(table.name, title, names, tuple(lines), more + table.note if last else "")
