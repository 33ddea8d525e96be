"""Reports how well tasks are proven, by agent and model."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from segue.domain.proof import Level
from segue.reports.report import Cell, DatasetReport, ReportTable
from segue.reports.selection import Dataset, count_begun
from segue.reports.statistics import Proportion

UNFINISHED, NOT_RECORDED = "unfinished", "not recorded"
_ORDER = [*(level.value for level in Level), NOT_RECORDED, UNFINISHED]
_PROVEN = [level for level in Level if level.proven and level is not Level.ACCEPTED]


def report_levels(dataset: Dataset) -> DatasetReport:
    """Report at which level of proof the tasks of the selected runs ended."""
    runs = {row["run_id"]: row for row in dataset.ask("runs")}
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for task in dataset.ask("tasks"):
        if task["ended"] and not task["skipped"] and not task["replaced"]:
            counts[_name_setting(runs[task["run_id"]])][_find_level(task)] += 1
    tables = (_tabulate_settings(counts), _tabulate_levels(counts))
    return DatasetReport("proof", "Levels of proof", count_begun(runs.values()), tables)


def _name_setting(run: Mapping[str, Any]) -> str:
    return " ".join(part for part in (run["agent"], run["model"]) if part)


def _find_level(task: Mapping[str, Any]) -> str:
    if not (task["done"] or task["accepted"]):
        return UNFINISHED
    return str(task["level"] or NOT_RECORDED)


def _tabulate_settings(counts: Mapping[str, Counter[str]]) -> ReportTable:
    rows: list[tuple[Cell, ...]] = []
    for setting, levels in sorted(counts.items()):
        total = levels.total()
        groups = (sum(levels[level] for level in _PROVEN), levels[Level.ACCEPTED], levels[UNFINISHED])
        rows.append((setting, *(Proportion(hits, total) for hits in groups)))
    return ReportTable(
        "proven",
        "Proven tasks by agent and model",
        ("setting", "proven", "accepted", "unfinished"),
        tuple(rows),
        "Proven: done at `checked` or stronger. Accepted: a person decided. Tasks of one run are alike: with"
        " few runs the intervals are too narrow.",
    )


def _tabulate_levels(counts: Mapping[str, Counter[str]]) -> ReportTable:
    rows = tuple(
        (setting, level, Proportion(levels[level], levels.total()))
        for setting, levels in sorted(counts.items())
        for level in _ORDER
        if levels[level]
    )
    return ReportTable(
        "levels",
        "Tasks by level",
        ("setting", "level", "tasks"),
        rows,
        "The level at which tasks ended; skipped and replaced tasks are left out.",
    )
