"""Builds reports by name, for commands and pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from segue.domain.amounts import format_count
from segue.domain.events import NOT_ISOLATED, join_isolation
from segue.reports.comparison import report_comparison
from segue.reports.gaps import report_gaps
from segue.reports.levels import report_levels
from segue.reports.recovery import report_recovery
from segue.reports.report import DatasetReport, ReportTable
from segue.reports.selection import Dataset, Selection, choose_kind
from segue.reports.timeline import Timeline, read_timeline
from segue.view.lanes import describe_lanes, list_stretches
from segue.view.load import load_view
from segue.view.run import RunView

if TYPE_CHECKING:
    from segue.store.store import Store


REPORTS: dict[str, Callable[[Dataset], DatasetReport]] = {
    "gaps": report_gaps,
    "recovery": report_recovery,
    "compare": report_comparison,
    "proof": report_levels,
}
"""The reports about many runs, by name."""


def build_reports(store: Store, names: tuple[str, ...], selection: Selection) -> list[DatasetReport]:
    """Build the named reports about the selected runs of one kind (see `choose_kind`)."""
    chosen, left_out = choose_kind(store, selection)
    dataset = Dataset(store, chosen)
    found = [REPORTS[name](dataset) for name in names]
    more = tuple(filter(None, (left_out, _describe_isolation(dataset))))
    return [replace(report, kind=chosen.kind or "", notes=(*report.notes, *more)) for report in found]


def _describe_isolation(dataset: Dataset) -> str:
    """Say in which sandboxes the agents of these runs worked; nothing if it is not known of any."""
    runs: dict[str, str] = {}
    for row in dataset.ask("isolation"):
        runs[row["run_id"]] = join_isolation(runs.get(row["run_id"], ""), row["isolation"])
    counts = Counter(label for label in runs.values() if label).most_common()
    # What a reader must not miss comes first.
    counts.sort(key=lambda one: one[0] != NOT_ISOLATED)
    named = ", ".join(f"{label} in {format_count(times, 'run')}" for label, times in counts)
    return f"Sandbox: {named}." if named else ""


def build_run_report(store: Store, run_id: str) -> DatasetReport | None:
    """Build the report about one run; None if there is no such run."""
    run = store.run(run_id)
    if run is None:
        return None
    view = load_view(store, run)
    found = read_timeline(store, run, view)
    tables = (_list_steps(found), *_list_lanes(view, run.updated))
    sandbox = (f"Sandbox: {view.isolation}.",) if view.isolation else ()
    notes = (found.title, *sandbox, *describe_lanes(view, run.updated / 1000))
    return DatasetReport("run", f"Run {found.run}: {found.state}", 1, tables, notes, found)


def _list_steps(found: Timeline) -> ReportTable:
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
    return ReportTable("steps", "Steps", columns, tuple(rows), "Begin: seconds since the start of the run.")


def _list_lanes(view: RunView, now: int) -> Iterator[ReportTable]:
    """Yield who worked when, if the run worked on several tasks at once."""
    stretches = list_stretches(view)
    if not stretches:
        return
    began = stretches[0].start
    rows = [
        (
            *(one.lane, one.task, (one.start - began) / 1000, round(one.seconds(now), 3), one.after, one.why),
            None if one.merging is None else ((now if one.end is None else one.end) - one.merging) / 1000,
            "yes" if one.collided is not None else "",
        )
        for one in stretches
    ]
    columns = ("lane", "task", "begin", "seconds", "after", "why", "merge_seconds", "collided")
    note = "One row per stretch of work. After: the task it waited for, itself when it was interrupted."
    yield ReportTable("lanes", "Lanes", columns, tuple(rows), note)
