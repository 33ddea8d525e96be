"""Turns the rows of the matrix of gaps into a matrix: a row per build phase, a column per agent and model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.amounts import format_count
from segue.parts.lab.reports.formatting import format_cell, format_percent
from segue.parts.lab.reports.report import Cell, ReportTable
from segue.parts.lab.reports.statistics import CONFIDENCE, Proportion

MATRIX = "first_verdicts"
SHADES = 10
"""Shades of a heat map: 0 for a rate of 0, 10 for a rate of 1."""


class MatrixCell(Struct, frozen=True):
    """One cell of the matrix."""

    text: str
    """All of it in one line; empty without cases."""
    shade: int | None
    """None without cases."""
    row: str
    column: str
    rate: str = ""
    interval: str = ""
    basis: str = ""
    """How many cases and runs there are."""
    is_gap: bool = False
    link: str = ""
    """The page with the steps behind it."""


class Matrix(Struct, frozen=True):
    """The rates of a table, by its first two columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[MatrixCell, ...]], ...]


def pivot(table: ReportTable) -> Matrix:
    """Return the matrix of a table whose columns are a row's name, a column's name and a rate."""
    cells = {(str(row), str(column)): cell for row, column, cell in table.rows}
    columns = tuple(sorted({column for _, column in cells}))
    names = dict.fromkeys(row for row, _ in cells)
    rates = [cell for cell in cells.values() if isinstance(cell, Proportion)]
    rows = tuple(
        (name, tuple(_make_cell(name, column, cells.get((name, column)), rates) for column in columns))
        for name in names
    )
    return Matrix(columns, rows)


def link_cells(matrix: Matrix, link: Callable[[str, str], str]) -> Matrix:
    """Link every cell, by the names of its row and column."""
    rows = tuple(
        (name, tuple(replace(cell, link=link(cell.row, cell.column)) for cell in cells))
        for name, cells in matrix.rows
    )
    return Matrix(matrix.columns, rows)


def is_gap(rate: Proportion, rates: Sequence[Proportion]) -> bool:
    """Return whether a rate is surely below that of all cases, with intervals widened for their number."""
    if len(rates) < 2 or rate.interval is None:
        return False
    return rate.limits(1 - (1 - CONFIDENCE) / len(rates))[1] < find_average(rates)


def find_average(rates: Sequence[Proportion]) -> float:
    """Return the rate of all cases together."""
    return sum(rate.hits for rate in rates) / sum(rate.n for rate in rates)


def _make_cell(row: str, column: str, cell: Cell, rates: Sequence[Proportion]) -> MatrixCell:
    if not isinstance(cell, Proportion) or cell.value is None:
        return MatrixCell("", None, row, column)
    runs = len(cell.runs)
    limits = "–".join(map(format_percent, cell.interval)) if cell.interval else ""
    return MatrixCell(
        format_cell(cell),
        round(cell.value * SHADES),
        row,
        column,
        f"{format_percent(cell.value)} %",
        f"[{limits}]" if limits else "no interval",
        f"{cell.hits} of {cell.n}, {format_count(runs, 'run')}",
        is_gap(cell, rates),
    )
