"""A report: a few tables with notes, the same for the terminal, the page, JSON and CSV."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from segue.reports.statistics import Difference, Mean, Rate
from segue.reports.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs something was seen in, newest first."""

    ids: tuple[str, ...]


Cell = str | int | float | Rate | Mean | Difference | Runs | None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows with named columns, the most telling row first."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    """How to read it."""

    def as_json(self) -> list[dict[str, Any]]:
        """One object per row."""
        return [
            {name: plain(cell) for name, cell in zip(self.columns, row, strict=True)} for row in self.rows
        ]


@dataclass(frozen=True, slots=True)
class Report:
    """The answer to one question."""

    name: str
    title: str
    runs: int
    """How many runs it rests on."""
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()
    """What was found, in sentences, and what was left out."""
    timeline: Timeline | None = field(default=None)

    def as_json(self) -> dict[str, Any]:
        """What programs get to see."""
        tables = {table.name: table.as_json() for table in self.tables}
        return {"report": self.name, "runs": self.runs, "notes": list(self.notes), **tables}


def plain(cell: Cell) -> Any:
    """A cell as JSON."""
    if isinstance(cell, Rate | Mean | Difference):
        return cell.as_json()
    return list(cell.ids) if isinstance(cell, Runs) else cell
