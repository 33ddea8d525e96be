"""Formats the cells of a report for the page: text, a bar with its interval, a tooltip and a link."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct

from segue.flow.phases.verify import VERIFY
from segue.reports.formatting import format_percent
from segue.reports.gaps import NO_PHASE
from segue.reports.html_page import PageCell, format_rows
from segue.reports.report import Cell, ReportTable, RunIds
from segue.reports.statistics import Difference, Mean, Proportion
from segue.view.amounts import format_quantity

MOST_RUNS = 6
"""Runs listed in a cell; the rest is counted."""


class Figure(Struct, frozen=True):
    """One cell."""

    cell: PageCell
    tip: str
    """The tooltip."""
    link: str
    """The page with the evidence behind it."""
    runs: tuple[tuple[str, str], ...] = ()
    """Runs with their links."""
    more: int = 0


def format_table(data: Mapping[str, Any], table: Mapping[str, Any]) -> list[list[Figure]]:
    """Format the rows of one table of the report."""
    columns, rows = tuple(table["columns"]), data[table["name"]][: table["shown"]]
    cells = [tuple(row.values()) for row in rows]
    drawn = format_rows(ReportTable(table["name"], table["title"], columns, tuple(cells)))
    links = [_link_columns(table["name"], row, data["filters"]) for row in rows]
    return [
        [
            _make_figure(shown, cell, name, row, lead)
            for shown, cell, name in zip(looks, values, columns, strict=True)
        ]
        for looks, values, row, lead in zip(drawn, cells, rows, links, strict=True)
    ]


def _make_figure(
    shown: PageCell, cell: Cell, name: str, row: Mapping[str, Any], links: Mapping[str, str]
) -> Figure:
    if isinstance(cell, RunIds):
        runs = tuple((run, _link_run(run, row)) for run in cell.ids[:MOST_RUNS])
        return Figure(shown, "", "", runs, max(0, len(cell.ids) - MOST_RUNS))
    tip = _make_tip(cell, name)
    return Figure(shown, tip, links.get(name, "") if tip else "")


def _link_run(run: str, row: Mapping[str, Any]) -> str:
    """Link an error to its events, anything else to the run."""
    if "signature" not in row:
        return f"/runs/{run}"
    kind = "verdict" if row["kind"] == "VERDICT" else "error"
    return "/events?" + urlencode({"run": run, "type": kind})


def _make_tip(cell: Cell, name: str) -> str:
    match cell:
        case Proportion() if cell.value is not None:
            counted = f"{cell.hits} of {cell.n} in {len(cell.runs)} run{'' if len(cell.runs) == 1 else 's'}."
            if cell.interval is None:
                return f"{counted} So few runs say little about others: there is no interval."
            low, high = (format_percent(share) for share in cell.interval)
            return f"{counted} 95 % interval for a new run: {low} % to {high} %."
        case Mean() if cell.value is not None:
            interval = _describe_interval(cell.low, cell.high, name)
            return f"Mean of {cell.n}: {format_quantity(cell.value, name)}.{interval}"
        case Difference():
            verdict = (
                "The difference is significant."
                if cell.is_significant
                else "The interval includes zero: it may be noise."
            )
            return f"{verdict} The bar shows the difference, the line its interval."
    return ""


def _describe_interval(low: float | None, high: float | None, name: str) -> str:
    if low is None or high is None:
        return " A single value has no interval."
    return f" 95 % interval: {format_quantity(low, name)} to {format_quantity(high, name)}."


def _link_columns(table: str, row: Mapping[str, Any], filters: Mapping[str, str]) -> dict[str, str]:
    """Map columns to the pages with the evidence behind their figures."""
    chosen = {name: value for name, value in filters.items() if value}
    match table:
        case "build_phases":
            part = {"build": "none" if row["build_phase"] == NO_PHASE else row["build_phase"], **chosen}
            failed = "/steps?" + urlencode({"state": "failed", **part})
            return {"failed": failed, "unfinished": failed, "launches": "/steps?" + urlencode(part)}
        case "first_verdicts":
            part = {"build": "none" if row["build_phase"] == NO_PHASE else row["build_phase"], **chosen}
            return {"passed_first": "/steps?" + urlencode({"phase": VERIFY.name, **part})}
        case "actions" | "randomised_actions":
            found = "/steps?" + urlencode({"phase": VERIFY.name, "action": row["action"], **chosen})
            return {"recovered": found, "against_retry": found}
        case "searches_by_topic" | "searches_by_source":
            wanted = row.get("topic") or row.get("source")
            return {"recovered": "/events?" + urlencode({"type": "search", "q": wanted})}
        case "settings":
            runs = "/runs?" + urlencode({"source": row["source"], "agent": row["setting"].split(" ")[0]})
            return dict.fromkeys([name for name in row if name not in ("source", "setting")], runs)
    return {}
