"""The reports by name, as commands and pages ask for them."""

from __future__ import annotations

from collections.abc import Callable

from segue.ports import Store
from segue.reports.comparison import comparison
from segue.reports.gaps import gaps
from segue.reports.recovery import recovery
from segue.reports.report import Report, Table
from segue.reports.selection import Dataset, Selection
from segue.reports.timeline import timeline

REPORTS: dict[str, Callable[[Dataset], Report]] = {"gaps": gaps, "recovery": recovery, "compare": comparison}
"""Name → the question about many runs."""


def answers(store: Store, names: tuple[str, ...], selection: Selection) -> list[Report]:
    """The reports with these names about the chosen runs."""
    dataset = Dataset(store, selection)
    return [REPORTS[name](dataset) for name in names]


def run_report(store: Store, run_id: str) -> Report | None:
    """The timeline of one run; None when there is no such run."""
    found = timeline(store, run_id)
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
    table = Table("steps", "Steps", columns, tuple(rows), "Begin: seconds since the run began.")
    return Report("run", f"Run {found.run}: {found.state}", 1, (table,), (found.title,), found)
