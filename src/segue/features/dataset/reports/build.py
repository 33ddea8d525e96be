"""Builds reports by name, for commands and pages; that about levels of proof is here."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from segue.domain.amounts import format_count
from segue.domain.events import NOT_ISOLATED, join_isolation
from segue.domain.proof import Level
from segue.features.dataset.reports.comparison import report_comparison
from segue.features.dataset.reports.gaps import report_gaps
from segue.features.dataset.reports.recovery import report_recovery
from segue.features.dataset.reports.report import Cell, DatasetReport, ReportTable, make_table
from segue.features.dataset.reports.selection import (
    Dataset,
    Selection,
    choose_kind,
    count_begun,
    name_setting,
)
from segue.features.dataset.reports.statistics import Proportion, tally

if TYPE_CHECKING:
    from segue.store.store import Store


UNFINISHED, NOT_RECORDED = "unfinished", "not recorded"
ACCEPTED = "accepted by a person"
_ORDER = [*(level.value for level in Level), ACCEPTED, NOT_RECORDED, UNFINISHED]
_PROVEN = [level.value for level in Level if level.proven]

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
