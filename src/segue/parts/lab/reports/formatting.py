"""Formats cells, durations and quantities the same way in the terminal and on the page."""

from __future__ import annotations

from segue.domain.amounts import format_count, format_quantity
from segue.parts.lab.reports.report import Cell, RunIds
from segue.parts.lab.reports.statistics import Difference, Mean, Proportion

NOTHING = "–"

_HEADINGS = {
    "cost_usd": "cost",
    "seconds": "time",
    "one": "A",
    "other": "B",
    "difference": "A − B",
    "says": "conclusion",
    "against_first": "difference",
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
    runs = format_count(len(rate.runs), "run")
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
