"""Builds reports by name, for commands and pages: that about levels of proof and that about one run too."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from segue.domain.amounts import format_count, list_some
from segue.domain.events import NOT_ISOLATED, join_isolation
from segue.domain.proof import Level
from segue.parts.lab.reports.comparison import report_comparison
from segue.parts.lab.reports.gaps import report_gaps
from segue.parts.lab.reports.recovery import report_recovery
from segue.parts.lab.reports.report import Cell, DatasetReport, ReportTable, make_table, show_queries
from segue.parts.lab.reports.routing import report_routing
from segue.parts.lab.reports.selection import Dataset, Selection, choose_kind, count_begun, name_setting
from segue.parts.lab.reports.statistics import Proportion, tally
from segue.parts.lab.reports.verification import report_verification
from segue.reports.timeline import Timeline, build_timeline
from segue.view.lanes import describe_lanes, list_stretches
from segue.view.load import load_view
from segue.view.run import RunView

if TYPE_CHECKING:
    from segue.store.store import Store


UNFINISHED, NOT_RECORDED = "unfinished", "not recorded"
ACCEPTED = "accepted by a person"
_OLD = ("judged", "held")
"""Levels of runs of earlier versions."""
_ORDER = [*(level.value for level in Level), *_OLD, ACCEPTED, NOT_RECORDED, UNFINISHED]
_PROVEN = [name for name in (*Level, *_OLD) if Level(name).proven]

_NAMED = 20

Ends = list[tuple[str, str]]
"""The run of a task, and the level at which it ended."""


def report_levels(dataset: Dataset) -> DatasetReport:
    """Report at which level of proof the tasks of the selected runs ended."""
    runs = {row["run_id"]: row for row in dataset.ask("runs")}
    ends: dict[str, Ends] = defaultdict(list)
    for task in dataset.ask("tasks"):
        if task["ended"] and not task["skipped"] and not task["replaced"]:
            ends[name_setting(runs[task["run_id"]])].append((task["run_id"], _find_level(task)))
    tables = (_tabulate_settings(ends), _tabulate_levels(ends))
    return DatasetReport("proof", "Levels of proof", count_begun(runs.values()), tables)


def _find_level(task: Mapping[str, Any]) -> str:
    if not (task["done"] or task["accepted"]):
        return UNFINISHED
    return ACCEPTED if task["accepted"] else str(task["level"] or NOT_RECORDED)


def _rate(ends: Ends, levels: Collection[str]) -> Proportion:
    return tally((run, level in levels) for run, level in ends)


def _tabulate_settings(ends: Mapping[str, Ends]) -> ReportTable:
    groups = (_PROVEN, [ACCEPTED], [UNFINISHED])
    rows: list[tuple[Cell, ...]] = [
        (setting, *(_rate(found, group) for group in groups)) for setting, found in sorted(ends.items())
    ]
    return make_table("proven", rows)


def _tabulate_levels(ends: Mapping[str, Ends]) -> ReportTable:
    counts = {setting: Counter(level for _, level in found) for setting, found in ends.items()}
    rows = tuple(
        (setting, level, _rate(found, (level,)))
        for setting, found in sorted(ends.items())
        for level in _ORDER
        if counts[setting][level]
    )
    return make_table("levels", rows)


REPORTS: dict[str, Callable[[Dataset], DatasetReport]] = {
    "gaps": report_gaps,
    "recovery": report_recovery,
    "compare": report_comparison,
    "proof": report_levels,
    "verification": report_verification,
    "routing": report_routing,
}
"""The reports about many runs, by name."""


def list_usual(store: Store) -> tuple[str, ...]:
    """Return the reports that are shown together: that about verification only if work is labelled."""
    labelled = store.query("SELECT 1 FROM orchestrator_events WHERE type = 'label' LIMIT 1")
    return tuple(name for name in REPORTS if labelled or name != "verification")


def build_reports(store: Store, names: tuple[str, ...], selection: Selection) -> list[DatasetReport]:
    """Build the named reports about the selected runs of one kind (see `choose_kind`)."""
    chosen, left_out = choose_kind(store, selection)
    dataset = Dataset(store, chosen)
    found = [show_queries(REPORTS[name](dataset), dataset) for name in names]
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
    dataset = Dataset(store, Selection(run=run.id))
    found = build_timeline(run, dataset.ask("timeline"), view, run.created, run.updated)
    tables = (_list_steps(found), *_list_lanes(view, run.updated))
    sandbox = (f"Sandbox: {view.isolation}.",) if view.isolation else ()
    notes = (found.title, *sandbox, *_name_flaky(view), *describe_lanes(view, run.updated / 1000))
    report = DatasetReport("run", f"Run {found.run}: {found.state}", 1, tables, notes, found)
    return show_queries(report, dataset)


def _name_flaky(view: RunView) -> Iterator[str]:
    """Yield a line about the tests that passed and failed on the same files."""
    proofs = [task.measured for task in view.tasks.values() if task.measured is not None]
    flaky = dict.fromkeys(test for proof in proofs for check in proof.checks for test in check.flaky)
    if flaky:
        yield f"Flaky, so they proved and refuted nothing: {list_some(list(flaky), _NAMED)}."


def _list_steps(found: Timeline) -> ReportTable:
    rows = [
        (
            *(lane.task, lane.title, lane.build_phase, bar.phase, bar.attempt, bar.who),
            *(round(bar.begin, 3), round(bar.seconds, 3), bar.state, bar.result, bar.action, bar.reason),
        )
        for lane in found.lanes
        for bar in lane.bars
    ]
    return make_table("steps", rows)


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
    yield make_table("lanes", rows)
