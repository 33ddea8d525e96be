"""Turns the rows of the matrix of gaps into a matrix: a row per build phase, a column per agent and model."""

from __future__ import annotations

from msgspec import Struct

from segue.reports.formatting import format_cell
from segue.reports.report import Cell, ReportTable
from segue.reports.statistics import Proportion

MATRIX = "first_verdicts"
SHADES = 10
"""Shades of a heat map: 0 for a rate of 0, 10 for a rate of 1."""


class MatrixCell(Struct, frozen=True):
    """One cell of the matrix."""

    text: str
    shade: int | None
    """None without cases."""
    row: str
    column: str


class Matrix(Struct, frozen=True):
    """The rates of a table, by its first two columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[MatrixCell, ...]], ...]


def pivot(table: ReportTable) -> Matrix:
    """Return the matrix of a table whose columns are a row's name, a column's name and a rate."""
    cells = {(str(row), str(column)): cell for row, column, cell in table.rows}
    columns = tuple(sorted({column for _, column in cells}))
    names = dict.fromkeys(row for row, _ in cells)
    rows = tuple(
        (name, tuple(_make_cell(name, column, cells.get((name, column))) for column in columns))
        for name in names
    )
    return Matrix(columns, rows)


def _make_cell(row: str, column: str, cell: Cell) -> MatrixCell:
    if not isinstance(cell, Proportion) or cell.value is None:
        return MatrixCell("", None, row, column)
    return MatrixCell(format_cell(cell), round(cell.value * SHADES), row, column)
