"""Knowledge gaps: which tasks and which errors come back in run after run, in which part of the build."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from segue.domain.signature import signature
from segue.reports.report import Cell, Report, Runs, Table
from segue.reports.selection import Dataset, Rows
from segue.reports.statistics import Rate, mean
from segue.reports.timeline import titles
from segue.reports.topics import topics

NO_PHASE = "(none)"
"""What a task builds when no agent has planned it."""

PHASES = ("setup", "schema", "backend", "frontend", "testing", "deployment")


def gaps(dataset: Dataset) -> Report:
    """What fails across the chosen runs."""
    runs = dataset.ask("runs")
    newest = [row["run_id"] for row in reversed(runs)]
    active = {row["run_id"] for row in runs if row["state"] in ("running", "parked")}
    tasks = [row for row in dataset.ask("tasks") if row["ended"] or row["run_id"] not in active]
    names = titles(dataset.ask("titles"))
    errors = dataset.ask("errors")
    tables = (_phases(tasks), _tasks(tasks, names, newest), _errors(errors, newest))
    return Report("gaps", "Knowledge gaps", len(runs), tables)


def _phases(tasks: Rows) -> Table:
    groups: dict[str, Rows] = defaultdict(list)
    for task in tasks:
        groups[task["build_phase"] or NO_PHASE].append(task)
    rows = tuple(
        (phase, _failed(groups[phase]), _unfinished(groups[phase]), _launches(groups[phase]))
        for phase in sorted(groups, key=_phase_order)
    )
    return Table(
        "build_phases",
        "By build phase",
        ("build_phase", "failed", "unfinished", "launches"),
        rows,
        "Failed: at least one attempt failed. Unfinished: the task did not end as done or skipped.",
    )


def _tasks(tasks: Rows, names: Mapping[str, Mapping[str, str]], newest: list[str]) -> Table:
    """Tasks are the same when their titles are about the same and they build the same part."""
    known = [(task, names.get(task["run_id"], {}).get(task["task"])) for task in tasks]
    topic = topics(title for _, title in known if title)
    groups: dict[tuple[str, str], Rows] = defaultdict(list)
    for task, title in known:
        name = topic[title] if title else f"Task {task['task']}"
        groups[task["build_phase"] or NO_PHASE, name].append(task)
    rows: list[tuple[Cell, ...]] = []
    for (phase, title), group in groups.items():
        failed = {task["run_id"] for task in group if _is_failed(task)}
        if failed:
            runs = Runs(tuple(run for run in newest if run in failed))
            rows.append((title, phase, _failed(group), _unfinished(group), runs))
    rows.sort(key=lambda row: (_worst(row[2]), str(row[0]), str(row[1])))
    return Table(
        "tasks",
        "Tasks that fail",
        ("task", "build_phase", "failed", "unfinished", "runs"),
        tuple(rows),
        "Ordered by how much of the failure rate is certain: the lower end of its interval.",
    )


def _errors(errors: Rows, newest: list[str]) -> Table:
    """Messages with one signature are one error; judges word the same thing anew, so theirs go by topic."""
    marks = [row["signature"] or signature(row["message"]) for row in errors]
    spoken = topics(mark for row, mark in zip(errors, marks, strict=True) if row["kind"] == "VERDICT")
    groups: dict[tuple[str, str], Rows] = defaultdict(list)
    for row, mark in zip(errors, marks, strict=True):
        groups[row["kind"], spoken[mark] if row["kind"] == "VERDICT" else mark].append(row)
    rows: list[tuple[Cell, ...]] = []
    for (kind, mark), group in groups.items():
        seen = {row["run_id"] for row in group}
        phases: Counter[str] = Counter()
        for row in group:
            phases[row["build_phase"] or NO_PHASE] += row["times"]
        runs = Runs(tuple(run for run in newest if run in seen))
        example = min(group, key=lambda row: (row["run_id"], row["seq"]))["message"]
        rate = Rate(len(seen), len(newest))
        rows.append((mark, kind, _listed(phases), sum(phases.values()), rate, example, runs))
    rows.sort(key=lambda row: (_worst(row[4]), -int(str(row[3])), str(row[0]), str(row[1])))
    return Table(
        "errors",
        "Errors that come back",
        ("signature", "kind", "build_phases", "times", "seen_in", "example", "runs"),
        tuple(rows),
        "Seen in: the share of all runs. Messages that differ only in names, paths and numbers are the same.",
    )


def _is_failed(task: Mapping[str, Any]) -> bool:
    return bool(task["failures"])


def _failed(tasks: Rows) -> Rate:
    return Rate(sum(map(_is_failed, tasks)), len(tasks))


def _unfinished(tasks: Rows) -> Rate:
    return Rate(sum(not (task["done"] or task["skipped"] or task["replaced"]) for task in tasks), len(tasks))


def _launches(tasks: Rows) -> Cell:
    return mean([float(task["launches"]) for task in tasks])


def _worst(cell: Cell) -> tuple[float, int]:
    """Sorts the rate of which most is certain first."""
    assert isinstance(cell, Rate)
    return -cell.interval[0], -cell.hits


def _phase_order(phase: str) -> tuple[int, str]:
    return PHASES.index(phase) if phase in PHASES else len(PHASES), phase


def _listed(phases: Counter[str]) -> str:
    return ", ".join(f"{phase} {phases[phase]}" for phase in sorted(phases, key=lambda p: (-phases[p], p)))
