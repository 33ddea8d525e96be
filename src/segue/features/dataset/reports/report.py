"""A report: tables with notes, and the texts of their cells, the same in the terminal and on the page."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

from msgspec import Struct

from segue.domain.amounts import format_count, format_quantity
from segue.features.dataset.reports.statistics import Difference, Mean, Proportion


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

    def records(self) -> list[dict[str, Cell]]:
        """Return one dictionary per row."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def to_json(self) -> list[dict[str, Any]]:
        """Return what programs read: one object per row."""
        return [{name: cell_to_json(cell) for name, cell in row.items()} for row in self.records()]


def make_table(name: str, rows: Iterable[tuple[Cell, ...]], *, note: str = "") -> ReportTable:
    """Make a table of which `tables.toml` says the rest."""
    said = read_tables()[name]
    return ReportTable(name, said["title"], tuple(said["columns"]), tuple(rows), note or said["note"])


@cache
def read_tables() -> dict[str, dict[str, Any]]:
    """Return what `tables.toml` says of every table."""
    text = files("segue.features.dataset.reports").joinpath("tables.toml").read_text("utf-8")
    return tomllib.loads(text)


class DatasetReport(Struct, frozen=True):
    """The answer to one question about the dataset."""

    name: str
    title: str
    runs: int
    """The number of runs behind it."""
    tables: tuple[ReportTable, ...]
    notes: tuple[str, ...] = ()
    """Findings as sentences, and what was left out."""
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


NOTHING = "–"

_HEADINGS = {
    "cost_usd": "cost",
    "seconds": "time",
    "one": "A",
    "other": "B",
    "difference": "A − B",
    "says": "conclusion",
}
"""Columns whose heading differs from their name."""


def format_heading(column: str) -> str:
    """Return the heading of a column."""
    return _HEADINGS.get(column, column.replace("_", " "))


def format_cell(cell: Cell, column: str = "") -> str:
    """Return the text of a cell."""
    match cell:
        case None | "":
            return NOTHING
        case Proportion():
            return _format_proportion(cell)
        case Mean():
            return _format_mean(cell, column)
        case Difference():
            return _format_difference(cell)
        case RunIds(ids=ids):
            return f"{ids[0]} +{len(ids) - 1}" if len(ids) > 1 else "".join(ids)
        case float():
            return format_quantity(cell, column)
        case str() if column == "measure":
            return format_heading(cell)
        case _:
            return str(cell)


def format_percent(share: float) -> str:
    """Format a share as a whole percentage, without the sign."""
    return f"{100 * share:.0f}"


def _format_proportion(rate: Proportion) -> str:
    if rate.value is None:
        return "no cases"
    runs = format_count(len(rate.runs), rate.unit)
    alone = len(rate.runs) == rate.n
    counted = f"{rate.hits}/{rate.n}{' ' + runs.split()[1] if alone else ''} {format_percent(rate.value)}%"
    shown = (
        f" [{format_percent(rate.interval[0])}–{format_percent(rate.interval[1])}]" if rate.interval else ""
    )
    return f"{counted}{shown}{'' if alone else f' in {runs}'}"


def _format_mean(mean: Mean, column: str) -> str:
    if mean.value is None:
        return "not reported"
    text = format_quantity(mean.value, column)
    if mean.low is None or mean.high is None:
        return text
    return f"{text} [{format_quantity(mean.low, column)}–{format_quantity(mean.high, column)}]"


def _format_difference(found: Difference) -> str:
    if found.unit == "points":
        value, low, high = (f"{round(100 * number):+d}" for number in (found.value, found.low, found.high))
        return f"{value} points [{low} to {high}]"
    value, low, high = (_format_signed(number, found.unit) for number in (found.value, found.low, found.high))
    return f"{value} [{low} to {high}]"


def _format_signed(value: float, unit: str) -> str:
    return f"{'+' if value >= 0 else '-'}{format_quantity(abs(value), unit)}"
