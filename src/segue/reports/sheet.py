"""Reports as CSV: one header, one row per row of every table, and a column that names the table."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

from segue.reports.report import Report, Table

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def as_csv(reports: Iterable[Report]) -> str:
    """The tables of all reports below each other; a cell is empty where a table has no such column."""
    rows = [row for report in reports for table in report.tables for row in _rows(report, table)]
    columns = list(dict.fromkeys(name for row in rows for name in row)) or ["report", "table"]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _rows(report: Report, table: Table) -> Iterable[dict[str, Any]]:
    for row in table.as_json():
        yield {"report": report.name, "table": table.name, **_flat(row)}


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """Rates, averages and differences as columns of their own; runs in one cell."""
    flat: dict[str, Any] = {}
    for name, cell in row.items():
        if isinstance(cell, dict):
            flat |= {f"{name}_{part}": value for part, value in cell.items()}
        elif isinstance(cell, list):
            flat[name] = _harmless(" ".join(map(str, cell)))
        else:
            flat[name] = _harmless(cell) if isinstance(cell, str) else cell
    return flat


def _harmless(text: str) -> str:
    """Spreadsheets would run what begins like a formula, and agents write what they like."""
    return f"'{text}" if text.startswith(_FORMULA) else text
