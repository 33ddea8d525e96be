"""Formats the cells of a report for the page: text, a bar with its interval, a tooltip and a link."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import urlencode

from msgspec.structs import replace

from segue.domain.amounts import format_count, format_quantity
from segue.flow.phase import VERIFY
from segue.parts.lab.reports.gaps import NO_PHASE, link_cells
from segue.parts.lab.reports.page_table import PageCell, PageTable, present_table
from segue.parts.lab.reports.report import Cell, ReportTable, RunIds, format_percent
from segue.parts.lab.reports.statistics import Difference, Mean, Proportion

MOST_RUNS = 6
"""Runs listed in a cell; the rest is counted."""


def format_table(data: Mapping[str, Any], table: Mapping[str, Any]) -> PageTable:
    """Format one table of the report, with links from its figures to what is behind them."""
    name, columns = table["name"], tuple(table["columns"])
    filters = {**data["filters"], "kind": data.get("kind", "")}
    rows = tuple(tuple(row.values()) for row in data[name][: max(table["shown"], table["drawn"])])
    whole = ReportTable(name, table["title"], columns, rows, table["note"], table["sql"])

    def decorate(shown: PageCell, cell: Cell, column: str, row: Mapping[str, Any]) -> PageCell:
        return _decorate(shown, cell, column, row, _link_columns(name, row, filters))

    found = present_table(whole, lambda label: _link_point(name, label, filters), decorate)
    if found.matrix is not None:
        found = replace(found, matrix=link_cells(found.matrix, lambda row, _: _link_phase(row, filters)))
    return replace(found, total=table["total"])


def _decorate(
    shown: PageCell, cell: Cell, name: str, row: Mapping[str, Any], links: Mapping[str, str]
) -> PageCell:
    if isinstance(cell, RunIds):
        runs = tuple((run, _link_run(run, row)) for run in cell.ids[:MOST_RUNS])
        return replace(shown, runs=runs, more=max(0, len(cell.ids) - MOST_RUNS))
    tip = _make_tip(cell, name)
    return replace(shown, tip=tip, link=links.get(name, "") if tip else "")


def _link_point(table: str, label: str, filters: Mapping[str, str]) -> str:
    """Link a name in a figure to the runs or steps behind it."""
    match table:
        case "by_setting" if "/" not in label:
            chosen = {name: filters[name] for name in ("source", "kind") if filters.get(name)}
            return escape("/runs?" + urlencode({**chosen, "agent": label.split(" ")[0]}))
        case "actions" | "randomised_actions":
            return escape(_link_steps(filters, phase=VERIFY.name, action=label))
    return f"#rows-{table}"


def _link_phase(build_phase: str, filters: Mapping[str, str]) -> str:
    """Link to the verdicts on the tasks of a build phase."""
    return _link_steps(filters, phase=VERIFY.name, build=_name_build(build_phase))


def _name_build(build_phase: str) -> str:
    return "none" if build_phase == NO_PHASE else build_phase


def _link_steps(filters: Mapping[str, str], **wanted: str) -> str:
    chosen = {name: value for name, value in filters.items() if value}
    return "/steps?" + urlencode({**wanted, **chosen})


def _link_run(run: str, row: Mapping[str, Any]) -> str:
    """Link an error to its events, anything else to the run."""
    if "signature" not in row:
        return f"/runs/{run}"
    kind = "verdict" if row["kind"] == "VERDICT" else "error"
    return "/events?" + urlencode({"run": run, "type": kind})


def _make_tip(cell: Cell, name: str) -> str:
    match cell:
        case Proportion() if cell.value is not None:
            counted = f"{cell.hits} of {cell.n} in {format_count(len(cell.runs), 'run')}."
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
    match table:
        case "build_phases":
            build = _name_build(row["build_phase"])
            failed = _link_steps(filters, state="failed", build=build)
            return {"failed": failed, "unfinished": failed, "launches": _link_steps(filters, build=build)}
        case "first_verdicts":
            return {"passed_first": _link_phase(row["build_phase"], filters)}
        case "actions" | "randomised_actions":
            found = _link_steps(filters, phase=VERIFY.name, action=row["action"])
            return {"recovered": found, "against_retry": found}
        case "searches_by_topic" | "searches_by_source":
            wanted = row.get("topic") or row.get("source")
            return {"recovered": "/events?" + urlencode({"type": "search", "q": wanted})}
        case "settings":
            runs = "/runs?" + urlencode({"source": row["source"], "agent": row["setting"].split(" ")[0]})
            return dict.fromkeys([name for name in row if name not in ("source", "setting")], runs)
        case "by_setting":
            return dict.fromkeys(("passed", "cost_usd"), _link_point(table, row["setting"], filters))
    return {}
