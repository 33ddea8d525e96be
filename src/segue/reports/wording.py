"""How the cells of a report read for people: the same words in the terminal and on the page."""

from __future__ import annotations

from segue.reports.report import Cell, Runs
from segue.reports.statistics import Difference, Mean, Rate

NOTHING = "–"


def heading(column: str) -> str:
    """The name of a column as people read it."""
    return {"cost_usd": "cost", "seconds": "time"}.get(column, column.replace("_", " "))


def wording(cell: Cell, column: str = "") -> str:
    """The text of a cell."""
    match cell:
        case None | "":
            return NOTHING
        case Rate():
            return _rate(cell)
        case Mean():
            return _mean(cell, column)
        case Difference():
            return _difference(cell)
        case Runs(ids=ids):
            return f"{ids[0]} +{len(ids) - 1}" if len(ids) > 1 else "".join(ids)
        case float():
            return quantity(cell, column)
        case _:
            return str(cell)


def percent(share: float) -> str:
    """A share as people say it."""
    return f"{100 * share:.0f}"


def quantity(value: float, measure: str) -> str:
    """An amount in the unit of its measure."""
    if measure == "cost_usd":
        return f"${value:,.2f}" if abs(value) >= 0.1 or value == 0 else f"${value:.4f}"
    if measure == "seconds":
        return duration(value)
    if abs(value) >= 10_000:
        return f"{value / 1000:,.0f}k"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def duration(seconds: float) -> str:
    """A duration as people say it."""
    if abs(seconds) < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(abs(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    sign = "-" if seconds < 0 else ""
    return f"{sign}{hours}h{minutes:02d}m" if hours else f"{sign}{minutes}m{rest:02d}s"


def _rate(rate: Rate) -> str:
    if rate.value is None:
        return "no case"
    low, high = rate.interval
    return f"{rate.hits}/{rate.n} {percent(rate.value)}% [{percent(low)}–{percent(high)}]"


def _mean(mean: Mean, column: str) -> str:
    if mean.value is None:
        return "not told"
    text = quantity(mean.value, column)
    if mean.low is None or mean.high is None:
        return text
    return f"{text} [{quantity(mean.low, column)}–{quantity(mean.high, column)}]"


def _difference(found: Difference) -> str:
    if found.unit == "points":
        value, low, high = (f"{round(100 * number):+d}" for number in (found.value, found.low, found.high))
        return f"{value} points [{low} to {high}]"
    value, low, high = (_signed(number, found.unit) for number in (found.value, found.low, found.high))
    return f"{value} [{low} to {high}]"


def _signed(value: float, unit: str) -> str:
    return f"{'+' if value >= 0 else '-'}{quantity(abs(value), unit)}"
