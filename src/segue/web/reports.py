"""The pages of the reports: where agents fail, what helps, who does better; figures link to their steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from segue.domain.errors import UsageError
from segue.domain.run import TASK_RUNS
from segue.reports.build import REPORTS, build_reports
from segue.reports.page_table import MOST_ROWS
from segue.reports.report import DatasetReport, ReportTable
from segue.reports.selection import Selection, select_kinds, select_runs
from segue.web.report_cells import format_table
from segue.web.routes import Data, PageRequest, PageRoute

if TYPE_CHECKING:
    from segue.store.store import Store


FILTERS = ("since", "agent", "model", "source", "kind")
"""The filters of `segue report`."""

_ASKS = {
    "gaps": "Tasks and errors that recur across runs, by build phase.",
    "recovery": "What was done about failed verdicts, and how often the next attempt passed.",
    "compare": "Agents and models on the same source. Only significant differences are shown.",
    "proof": "How well tasks are proven, by agent and model.",
}
_EMPTY = {
    "gaps": "Nothing failed in these runs.",
    "recovery": "No failed verdict was followed by another attempt yet. Verdicts come from a judge:",
    "compare": "Only finished runs count. Run the same plan with two agents:",
    "proof": "No task has ended in these runs.",
}
_TRY = {
    "gaps": ("segue demo feature",),
    "recovery": ("segue run plan.md --flow spec", "segue demo build"),
    "compare": ("segue experiment todo.toml", "segue run plan.md --agent claude"),
    "proof": ("segue run plan.md",),
}


def make_query(name: str) -> Callable[[PageRequest], Data]:
    """Return the query of one report."""

    def query(request: PageRequest) -> Data:
        chosen = {filter_: request.text(filter_) for filter_ in FILTERS}
        selection, problem = select_for(request.store, chosen)
        [report] = build_reports(request.store, (name,), selection)
        return {
            "title": report.title,
            "asks": _ASKS[name],
            "report": report.name,
            "kind": report.kind,
            "runs": report.runs,
            "notes": list(report.notes),
            **describe_tables(report),
            "filters": chosen,
            "filtered": any(chosen.values()),
            "problem": problem,
            "choices": _list_choices(request.store),
            "empty": {"next": _EMPTY[name], "commands": _TRY[name]},
            "any": bool(request.store.runs(limit=1, kinds=TASK_RUNS)),
        }

    return query


def select_for(store: Store, chosen: Mapping[str, str]) -> tuple[Selection, str]:
    """Select the runs, and describe the problem of a filter that has to be ignored."""
    filters = {name: chosen[name] for name in FILTERS}
    try:
        return select_runs(store, **filters), ""
    except UsageError:
        problem = f"{chosen['since'][:40]!r} is not a date or duration. Write 7d, 12h or 2026-01-31."
        return select_runs(store, **{**filters, "since": ""}), problem


def present_report(data: Data) -> Data:
    """Format all tables, with their figures."""
    return {"tables": [format_table(data, table) for table in data["tables"]]}


def describe_tables(report: DatasetReport) -> Data:
    """Return the rows of all tables by their names, and what the page needs to know of each."""
    rows = {table.name: table.records() for table in report.tables}
    return {**rows, "tables": [_describe_table(table) for table in report.tables]}


def _describe_table(table: ReportTable) -> dict[str, Any]:
    """Describe a table; its rows are stored under its own name."""
    return {
        "name": table.name,
        "title": table.title,
        "columns": list(table.columns),
        "note": table.note,
        "total": len(table.rows),
        "shown": min(len(table.rows), MOST_ROWS),
        "drawn": len(table.rows) if table.sql else 0,
        "sql": table.sql,
    }


def _list_choices(store: Store) -> dict[str, list[str]]:
    rows = store.query(
        "SELECT DISTINCT spec->>'agent' AS agent, spec->>'model' AS model, kind FROM orchestrator_runs"  # noqa: S608
        f" WHERE {select_kinds()}"
    )
    return {
        name: sorted({str(row[name]) for row in rows if row[name]}) for name in ("agent", "model", "kind")
    }


PAGES = tuple(
    PageRoute(
        f"/{name}", "report.html", name.capitalize(), make_query(name), present_report, menu=True, slow=True
    )
    for name in REPORTS
)
