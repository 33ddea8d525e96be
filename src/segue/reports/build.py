"""Builds reports by name, for commands and pages."""

from __future__ import annotations

from collections.abc import Callable

from segue.ports import Store
from segue.reports.comparison import report_comparison
from segue.reports.gaps import report_gaps
from segue.reports.levels import report_levels
from segue.reports.recovery import report_recovery
from segue.reports.report import DatasetReport, ReportTable
from segue.reports.selection import Dataset, Selection
from segue.reports.timeline import read_timeline

REPORTS: dict[str, Callable[[Dataset], DatasetReport]] = {
    "gaps": report_gaps,
    "recovery": report_recovery,
    "compare": report_comparison,
    "proof": report_levels,
}
"""The reports about many runs, by name."""


def build_reports(store: Store, names: tuple[str, ...], selection: Selection) -> list[DatasetReport]:
    """Build the named reports about the selected runs."""
    dataset = Dataset(store, selection)
    return [REPORTS[name](dataset) for name in names]


def build_run_report(store: Store, run_id: str) -> DatasetReport | None:
    """Build the report about one run; None if there is no such run."""
    found = read_timeline(store, run_id)
    if found is None:
        return None
    columns = (
        *("task", "title", "build_phase", "phase", "attempt", "by", "begin", "seconds"),
        *("state", "result", "action", "reason"),
    )
    rows = [
        (
            *(lane.task, lane.title, lane.build_phase, bar.phase, bar.attempt, bar.who),
            *(round(bar.begin, 3), round(bar.seconds, 3), bar.state, bar.result, bar.action, bar.reason),
        )
        for lane in found.lanes
        for bar in lane.bars
    ]
    table = ReportTable("steps", "Steps", columns, tuple(rows), "Begin: seconds since the start of the run.")
    return DatasetReport("run", f"Run {found.run}: {found.state}", 1, (table,), (found.title,), found)
