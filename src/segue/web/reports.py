"""The pages of the reports: where agents fail, what helps, who does better; figures lead to their steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from segue.domain.errors import UsageError
from segue.ports import Store
from segue.reports.build import REPORTS, build_reports
from segue.reports.html_page import MOST_ROWS
from segue.reports.report import DatasetReport
from segue.reports.selection import Selection, find_sources, parse_since
from segue.web.pages import Asked, Data, Page

FILTERS = ("since", "agent", "model", "source")
"""The filters of `segue report`."""

_ASKS = {
    "gaps": "Which tasks and errors come back in run after run, and in which part of the build.",
    "recovery": "What is done about failed verdicts, and how often the next attempt passes then.",
    "compare": "Agents and models on the same source. Noise is not ranked.",
}
_EMPTY = {
    "gaps": "Nothing has failed in the runs that count here.",
    "recovery": "No verdict that failed was followed by another attempt yet. A judge gives verdicts:",
    "compare": "A run counts when it has ended. Let two agents carry the same plan:",
}
_TRY = {
    "gaps": ("segue demo feature",),
    "recovery": ("segue run plan.md --flow spec", "segue demo build"),
    "compare": (
        "segue experiment todo.toml",
        "segue run plan.md --agent claude",
    ),
}


def report_page(name: str) -> Callable[[Asked], Data]:
    """The page of one report."""

    def data(asked: Asked) -> Data:
        chosen = {filter_: asked.text(filter_) for filter_ in FILTERS}
        selection, problem = _selection(asked.store, chosen)
        [report] = build_reports(asked.store, (name,), selection)
        return {
            "title": report.title,
            "asks": _ASKS[name],
            **report.to_json(),
            "tables": [_table(report, number) for number in range(len(report.tables))],
            "filters": chosen,
            "filtered": any(chosen.values()),
            "problem": problem,
            "choices": _choices(asked.store),
            "empty": {"next": _EMPTY[name], "commands": _TRY[name]},
            "any": bool(asked.store.runs(limit=1)),
        }

    return data


def _selection(store: Store, chosen: Mapping[str, str]) -> tuple[Selection, str]:
    """The runs that count; what is wrong with a filter is said, and the filter left out."""
    begin, problem = None, ""
    if chosen["since"]:
        try:
            begin = parse_since(chosen["since"], time.time())
        except UsageError:
            problem = (
                f"{chosen['since'][:40]!r} is not an instant: write 7d, 12h, 2026-01-31 or 2026-01-31T14:00."
            )
    named = find_sources(store, chosen["source"]) if chosen["source"] else None
    return Selection(begin, chosen["agent"] or None, chosen["model"] or None, named), problem


def _table(report: DatasetReport, number: int) -> dict[str, Any]:
    """What the page needs beside the rows, which stand under the table's own name."""
    table = report.tables[number]
    return {
        "name": table.name,
        "title": table.title,
        "columns": list(table.columns),
        "note": table.note,
        "total": len(table.rows),
        "shown": min(len(table.rows), MOST_ROWS),
    }


def _choices(store: Store) -> dict[str, list[str]]:
    rows = store.query(
        "SELECT DISTINCT spec->>'agent' AS agent, spec->>'model' AS model FROM orchestrator_runs"
    )
    return {name: sorted({str(row[name]) for row in rows if row[name]}) for name in ("agent", "model")}


PAGES = tuple(
    Page(f"/{name}", "report.html", name.capitalize(), report_page(name), menu=True) for name in REPORTS
)
