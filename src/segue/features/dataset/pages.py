"""The pages of the reports: tables with a bar beside every rate, and the coloured matrix of gaps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from segue.domain.errors import UsageError
from segue.domain.run import TASK_RUNS
from segue.domain.text import cut_text
from segue.features.dataset.reports.build import REPORTS, build_reports
from segue.features.dataset.reports.gaps import MATRIX, Matrix, pivot
from segue.features.dataset.reports.report import (
    Cell,
    ReportTable,
    RunIds,
    format_cell,
    format_heading,
)
from segue.features.dataset.reports.selection import Selection, select_runs
from segue.features.dataset.reports.statistics import Proportion
from segue.view.load import select_kinds
from segue.web.routes import Data, PageRequest, PageRoute

if TYPE_CHECKING:
    from segue.store.store import Store


FILTERS = ("since", "agent", "model", "source", "kind")
"""The filters of `segue report`."""

MOST_ROWS = 100
"""Rows of a table on the page; JSON and CSV contain all."""

_MOST_RUNS = 6
_MOST_TEXT = 600
_WORD = 20
"""A single word up to this length is not broken into two lines."""

_ASKS = {
    "gaps": "Tasks and errors that recur across runs, by build phase.",
    "recovery": "What was done about failed attempts, and how often the next attempt passed.",
    "compare": "Agents and models on the same source. Only significant differences are shown.",
    "proof": "How well tasks are proven, by agent and model.",
}
_EMPTY = {
    "gaps": "Nothing failed in these runs.",
    "recovery": "No failed attempt was followed by another one yet:",
    "compare": "Only finished runs count. Run the same plan with two agents:",
    "proof": "No task has ended in these runs.",
}
_TRY = {
    "gaps": ("segue demo",),
    "recovery": ("segue run plan.md --flow spec", "segue demo build"),
    "compare": ("segue experiment todo.toml", "segue run plan.md --agent claude"),
    "proof": ("segue run plan.md",),
}


class PageCell(Struct, frozen=True):
    """A cell as the page shows it."""

    label: str
    text: str
    kind: str
    share: float | None = None
    """What its bar shows; None: no bar."""
    runs: tuple[str, ...] = ()
    more: int = 0
    """How many runs are not listed."""


class PageTable(Struct, frozen=True):
    """One table with everything a page shows of it."""

    name: str
    title: str
    note: str
    headings: tuple[str, ...]
    rows: list[list[PageCell]]
    total: int
    matrix: Matrix | None


def make_query(name: str) -> Callable[[PageRequest], Data]:
    """Return the query of one report."""

    def query(request: PageRequest) -> Data:
        chosen = {filter_: request.text(filter_) for filter_ in FILTERS}
        selection, problem = _select(request.store, chosen)
        [report] = build_reports(request.store, (name,), selection)
        return {
            "title": report.title,
            "asks": _ASKS[name],
            "report": report.name,
            "kind": report.kind,
            "runs": report.runs,
            "notes": list(report.notes),
            "tables": [
                {name: getattr(table, name) for name in ("name", "title", "columns", "note")}
                for table in report.tables
            ],
            **{table.name: table.records() for table in report.tables},
            "filters": chosen,
            "filtered": any(chosen.values()),
            "problem": problem,
            "choices": _list_choices(request.store),
            "empty": {"next": _EMPTY[name], "commands": _TRY[name]},
            "any": bool(request.store.runs(limit=1, kinds=TASK_RUNS)),
        }

    return query


def _select(store: Store, chosen: dict[str, str]) -> tuple[Selection, str]:
    """Select the runs, and describe the problem of a filter that has to be ignored."""
    try:
        return select_runs(store, **chosen), ""
    except UsageError:
        problem = f"{chosen['since'][:40]!r} is not a date or duration. Write 7d, 12h or 2026-01-31."
        return select_runs(store, **{**chosen, "since": ""}), problem


def _list_choices(store: Store) -> dict[str, list[str]]:
    rows = store.query(
        "SELECT DISTINCT spec->>'agent' AS agent, spec->>'model' AS model, kind FROM orchestrator_runs"  # noqa: S608
        f" WHERE {select_kinds()}"
    )
    return {
        name: sorted({str(row[name]) for row in rows if row[name]}) for name in ("agent", "model", "kind")
    }


def present_report(data: Data) -> Data:
    """Format all tables."""
    return {"tables": [_present_table(about, data[about["name"]]) for about in data["tables"]]}


def _present_table(about: Mapping[str, Any], rows: Sequence[Mapping[str, Cell]]) -> PageTable:
    whole = ReportTable(rows=tuple(tuple(row.values()) for row in rows), **about)
    shown = [[_present_cell(name, cell) for name, cell in row.items()] for row in rows[:MOST_ROWS]]
    headings = tuple(map(format_heading, whole.columns))
    matrix = pivot(whole) if whole.name == MATRIX and rows else None
    return PageTable(whole.name, whole.title, whole.note, headings, shown, len(rows), matrix)


def _present_cell(name: str, cell: Cell) -> PageCell:
    label = format_heading(name)
    if isinstance(cell, RunIds):
        return PageCell(
            label, "", "runs", runs=cell.ids[:_MOST_RUNS], more=max(0, len(cell.ids) - _MOST_RUNS)
        )
    kind = "figure"
    if isinstance(cell, str):
        kind = "word" if len(cell) <= _WORD and " " not in cell else "text"
    share = cell.value if isinstance(cell, Proportion) else None
    return PageCell(label, cut_text(format_cell(cell, name), _MOST_TEXT), kind, share)


PAGES = tuple(
    PageRoute(
        f"/{name}", "report.html", name.capitalize(), make_query(name), present_report, menu="Lab", slow=True
    )
    for name in REPORTS
)
