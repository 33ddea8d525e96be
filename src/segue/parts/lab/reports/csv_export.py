"""Exports reports as CSV: one header, the rows of every table, and a column that names the table."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

from segue.parts.lab.reports.report import DatasetReport, ReportTable

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def to_csv(reports: Iterable[DatasetReport]) -> str:
    """Put the tables of all reports below each other; a cell is empty if its table lacks the column."""
    rows = [row for report in reports for table in report.tables for row in _flatten_table(report, table)]
    columns = list(dict.fromkeys(name for row in rows for name in row)) or ["report", "table"]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _flatten_table(report: DatasetReport, table: ReportTable) -> Iterable[dict[str, Any]]:
    for row in table.to_json():
        yield {"report": report.name, "table": table.name, **_flatten_row(row)}


def _flatten_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Split proportions, means and differences into columns; join runs into one cell."""
    flat: dict[str, Any] = {}
    for name, cell in row.items():
        if isinstance(cell, dict):
            flat |= {f"{name}_{part}": value for part, value in cell.items()}
        elif isinstance(cell, list):
            flat[name] = _escape_formula(" ".join(map(str, cell)))
        else:
            flat[name] = _escape_formula(cell) if isinstance(cell, str) else cell
    return flat


def _escape_formula(text: str) -> str:
    """Quote text that a spreadsheet would run as a formula: agents may write anything."""
    return f"'{text}" if text.startswith(_FORMULA) else text
