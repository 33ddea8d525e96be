"""Reports how well tasks are proven, by agent and model."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from segue.domain.proof import Level
from segue.parts.lab.reports.report import Cell, DatasetReport, ReportTable
from segue.parts.lab.reports.selection import Dataset, count_begun, name_setting
from segue.parts.lab.reports.statistics import Proportion, tally

UNFINISHED, NOT_RECORDED = "unfinished", "not recorded"
_ORDER = [*(level.value for level in Level), NOT_RECORDED, UNFINISHED]
_PROVEN = [level for level in Level if level.proven and level is not Level.ACCEPTED]

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
    return str(task["level"] or NOT_RECORDED)


def _rate(ends: Ends, levels: Collection[str]) -> Proportion:
    return tally((run, level in levels) for run, level in ends)


def _tabulate_settings(ends: Mapping[str, Ends]) -> ReportTable:
    groups = (_PROVEN, [Level.ACCEPTED], [UNFINISHED])
    rows: list[tuple[Cell, ...]] = [
        (setting, *(_rate(found, group) for group in groups)) for setting, found in sorted(ends.items())
    ]
    return ReportTable(
        "proven",
        "Proven tasks by agent and model",
        ("setting", "proven", "accepted", "unfinished"),
        tuple(rows),
        "Proven: done at `checked` or stronger. Accepted: a person decided.",
    )


def _tabulate_levels(ends: Mapping[str, Ends]) -> ReportTable:
    counts = {setting: Counter(level for _, level in found) for setting, found in ends.items()}
    rows = tuple(
        (setting, level, _rate(found, (level,)))
        for setting, found in sorted(ends.items())
        for level in _ORDER
        if counts[setting][level]
    )
    return ReportTable(
        "levels",
        "Tasks by level",
        ("setting", "level", "tasks"),
        rows,
        "The level at which tasks ended; skipped and replaced tasks are left out.",
    )
