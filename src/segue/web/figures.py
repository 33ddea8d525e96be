"""The cells of a report on the page: words, a bar with its interval, a hint on hover, and where they lead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from segue.reports.formatting import format_heading, format_percent, format_quantity
from segue.reports.gaps import NO_PHASE
from segue.reports.html_page import PageCell, format_rows
from segue.reports.report import Cell, ReportTable, RunIds
from segue.reports.statistics import Difference, Mean, Proportion

MOST_RUNS = 6
"""Runs a cell names; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One cell."""

    cell: PageCell
    tip: str
    """What a person hovering over it is told."""
    link: str
    """Where what is behind it can be seen."""
    runs: tuple[tuple[str, str], ...] = ()
    """Runs with where they lead."""
    more: int = 0


def figures(data: Mapping[str, Any], told: Mapping[str, Any]) -> list[list[Figure]]:
    """The rows of one table of a report, from what its JSON twin says."""
    columns, rows = tuple(told["columns"]), data[told["name"]][: told["shown"]]
    cells = [tuple(_cell(row[name], row) for name in columns) for row in rows]
    drawn = format_rows(ReportTable(told["name"], told["title"], columns, tuple(cells)))
    links = [_links(told["name"], row, data["filters"]) for row in rows]
    return [
        [
            _figure(shown, cell, name, row, lead)
            for shown, cell, name in zip(looks, values, columns, strict=True)
        ]
        for looks, values, row, lead in zip(drawn, cells, rows, links, strict=True)
    ]


def headings(told: Mapping[str, Any]) -> list[str]:
    """The names of the columns."""
    return [format_heading(name) for name in told["columns"]]


def _cell(value: Any, row: Mapping[str, Any]) -> Cell:
    """The cell that was written as JSON."""
    if isinstance(value, list):
        return RunIds(tuple(value))
    if not isinstance(value, dict):
        return value  # type: ignore[no-any-return]
    if "hits" in value:
        return Proportion(value["hits"], value["n"])
    if "mean" in value:
        return Mean(value["n"], value["mean"], value["low"], value["high"])
    measure = row.get("measure", "passed")
    unit = "points" if measure == "passed" else measure
    return Difference(value["value"], value["low"], value["high"], unit)


def _figure(
    shown: PageCell, cell: Cell, name: str, row: Mapping[str, Any], links: Mapping[str, str]
) -> Figure:
    if isinstance(cell, RunIds):
        runs = tuple((run, _run_link(run, row)) for run in cell.ids[:MOST_RUNS])
        return Figure(shown, "", "", runs, max(0, len(cell.ids) - MOST_RUNS))
    tip = _tip(cell, name)
    return Figure(shown, tip, links.get(name, "") if tip else "")


def _run_link(run: str, row: Mapping[str, Any]) -> str:
    """Errors lead to the events that tell of them, anything else to the run."""
    if "signature" not in row:
        return f"/runs/{run}"
    kind = "verdict" if row["kind"] == "VERDICT" else "error"
    return "/events?" + urlencode({"run": run, "type": kind})


def _tip(cell: Cell, name: str) -> str:
    match cell:
        case Proportion() if cell.value is not None:
            low, high = (format_percent(share) for share in cell.interval)
            return f"{cell.hits} of {cell.n}. The true share lies between {low} % and {high} %, at 95 %."
        case Mean() if cell.value is not None:
            between = _between(cell.low, cell.high, name)
            return f"The average of {cell.n}: {format_quantity(cell.value, name)}.{between}"
        case Difference():
            verdict = (
                "The difference is significant."
                if cell.is_significant
                else "The interval includes zero: it may be noise."
            )
            return f"{verdict} Each bar goes from zero to what was found; the line is its interval."
    return ""


def _between(low: float | None, high: float | None, name: str) -> str:
    if low is None or high is None:
        return " One value has no interval."
    return f" 95 % interval: {format_quantity(low, name)} to {format_quantity(high, name)}."


def _links(table: str, row: Mapping[str, Any], filters: Mapping[str, str]) -> dict[str, str]:
    """Column → where what is behind the figure can be seen."""
    chosen = {name: value for name, value in filters.items() if value}
    match table:
        case "build_phases":
            part = {"build": "none" if row["build_phase"] == NO_PHASE else row["build_phase"], **chosen}
            failed = "/steps?" + urlencode({"state": "failed", **part})
            return {"failed": failed, "unfinished": failed, "launches": "/steps?" + urlencode(part)}
        case "actions":
            found = "/steps?" + urlencode({"phase": "verify", "action": row["action"], **chosen})
            return {"recovered": found, "against_retry": found}
        case "searches_by_topic" | "searches_by_source":
            wanted = row.get("topic") or row.get("source")
            return {"recovered": "/events?" + urlencode({"type": "search", "q": wanted})}
        case "settings":
            runs = "/runs?" + urlencode({"source": row["source"], "agent": row["setting"].split(" ")[0]})
            return dict.fromkeys([name for name in row if name not in ("source", "setting")], runs)
    return {}
