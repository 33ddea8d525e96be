"""A report: tables with notes, the same for the terminal, the page, JSON and CSV."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from segue.parts.lab.reports.statistics import Difference, Mean, Proportion
from segue.reports.timeline import Timeline


class RunIds(Struct, frozen=True):
    """The runs in which something was seen, newest first."""

    ids: tuple[str, ...]

    def to_json(self) -> list[str]:
        """Return what programs read."""
        return list(self.ids)


Cell = str | int | float | Proportion | Mean | Difference | RunIds | None


class ReportTable(Struct, frozen=True):
    """Rows with named columns, the most important row first."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    """How to read the table."""
    sql: str = ""
    """A query that gives the same numbers, for tables that have a figure."""

    def records(self) -> list[dict[str, Cell]]:
        """Return one dictionary per row."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def to_json(self) -> list[dict[str, Any]]:
        """Return what programs read: one object per row."""
        return [{name: cell_to_json(cell) for name, cell in row.items()} for row in self.records()]


class DatasetReport(Struct, frozen=True):
    """The answer to one question about the dataset."""

    name: str
    title: str
    runs: int
    """The number of runs behind it."""
    tables: tuple[ReportTable, ...]
    notes: tuple[str, ...] = ()
    """Findings as sentences, and what was left out."""
    timeline: Timeline | None = field(default=None)
    kind: str = ""
    """The kind of these runs."""

    def to_json(self) -> dict[str, Any]:
        """Return what programs read."""
        tables = {table.name: table.to_json() for table in self.tables}
        facts = {"report": self.name, "kind": self.kind, "runs": self.runs, "notes": list(self.notes)}
        return {**facts, **tables}


def cell_to_json(cell: Cell) -> Any:
    """Convert a cell to a JSON value."""
    return cell.to_json() if isinstance(cell, Proportion | Mean | Difference | RunIds) else cell
