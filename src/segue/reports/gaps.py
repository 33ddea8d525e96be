"""Reports knowledge gaps: tasks and errors that recur across runs, by build phase."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from statistics import fmean

from segue.domain.outcome import signature
from segue.domain.plan import BuildPhase
from segue.reports.formatting import format_cell, format_percent
from segue.reports.pivot import find_average, is_gap
from segue.reports.report import Cell, DatasetReport, ReportTable, RunIds
from segue.reports.selection import Dataset, Rows, count_begun, name_setting
from segue.reports.statistics import Proportion, mean, single_cases, tally, tally_groups
from segue.reports.timeline import read_titles
from segue.reports.topics import group_by_topic
from segue.reports.usage import read_usage

NO_PHASE = "(none)"
"""The build phase of a task that no agent has planned."""

_ORDER = [str(phase) for phase in BuildPhase]


def report_gaps(dataset: Dataset) -> DatasetReport:
    """Report what fails across the selected runs."""
    runs = dataset.ask("runs")
    newest = [row["run_id"] for row in reversed(runs)]
    active = {row["run_id"] for row in runs if row["state"] in ("queued", "running", "parked")}
    used = dataset.compute(read_usage)
    tasks = [
        {**row, "launches": used[row["run_id"]].attempts[row["task"]]}
        for row in dataset.ask("tasks")
        if row["ended"] or row["run_id"] not in active
    ]
    names = read_titles(dataset.ask("titles"))
    errors = dataset.ask("errors")
    matrix = _tabulate_first_verdicts(dataset, runs)
    tables = (
        matrix,
        _tabulate_phases(tasks),
        _tabulate_tasks(tasks, names, newest),
        _tabulate_errors(errors, newest),
    )
    return DatasetReport("gaps", "Knowledge gaps", count_begun(runs), tables, tuple(_describe(matrix)))


def _tabulate_first_verdicts(dataset: Dataset, runs: Rows) -> ReportTable:
    """Tabulate how often the first attempt passes; the final result says less, as fixes help everybody."""
    settings = {run["run_id"]: name_setting(run) for run in runs}
    found = tally_groups(
        ((row["build_phase"] or NO_PHASE, settings[row["run_id"]]), row["run_id"], bool(row["passed"]))
        for row in dataset.ask("first_verdicts")
    )
    order = sorted(found, key=lambda key: (_order_phase(key[0]), key[1]))
    return ReportTable(
        "first_verdicts",
        "First attempts that pass, by build phase and agent",
        ("build_phase", "setting", "passed_first"),
        tuple((*key, found[key]) for key in order),
        "Passed: checks and judge had nothing to object to before any fix. Each interval alone is a 95 % one;"
        " a gap is named only if it holds for all cells together (Bonferroni).",
        dataset.show_sql("gap_matrix"),
    )


def _describe(matrix: ReportTable) -> Iterator[str]:
    """Name the cells that are weaker than all cases together, with intervals widened for their number."""
    rates = [cell for *_, cell in matrix.rows if isinstance(cell, Proportion)]
    for phase, setting, rate in matrix.rows:
        if isinstance(rate, Proportion) and is_gap(rate, rates):
            yield (
                f"Gap: first attempts at {phase} with {setting} pass in {format_cell(rate)},"
                f" of all first attempts {format_percent(find_average(rates))}% do."
            )


def _tabulate_phases(tasks: Rows) -> ReportTable:
    groups: dict[str, Rows] = defaultdict(list)
    for task in tasks:
        groups[task["build_phase"] or NO_PHASE].append(task)
    rows = tuple(
        (
            phase,
            _rate_failed(groups[phase]),
            _rate_unfinished(groups[phase]),
            _average_launches(groups[phase]),
        )
        for phase in sorted(groups, key=_order_phase)
    )
    return ReportTable(
        "build_phases",
        "By build phase",
        ("build_phase", "failed", "unfinished", "launches"),
        rows,
        "Failed: at least one attempt failed. Unfinished: the task did not end as done or skipped."
        " Launches: per task, averaged by run.",
    )


def _tabulate_tasks(tasks: Rows, names: Mapping[str, Mapping[str, str]], newest: list[str]) -> ReportTable:
    """Treat tasks as the same if their titles share a topic and they belong to the same build phase."""
    known = [(task, names.get(task["run_id"], {}).get(task["task"])) for task in tasks]
    topic = group_by_topic(title for _, title in known if title)
    groups: dict[tuple[str, str], Rows] = defaultdict(list)
    for task, title in known:
        name = topic[title] if title else f"Task {task['task']}"
        groups[task["build_phase"] or NO_PHASE, name].append(task)
    rows: list[tuple[Cell, ...]] = []
    for (phase, title), group in groups.items():
        failed = {task["run_id"] for task in group if task["failures"]}
        if failed:
            runs = RunIds(tuple(run for run in newest if run in failed))
            rows.append((title, phase, _rate_failed(group), _rate_unfinished(group), runs))
    rows.sort(key=lambda row: (_sort_key(row[2]), str(row[0]), str(row[1])))
    return ReportTable(
        "tasks",
        "Tasks that fail",
        ("task", "build_phase", "failed", "unfinished", "runs"),
        tuple(rows),
        "Sorted by the lower end of the interval of the failure rate.",
    )


def _tabulate_errors(errors: Rows, newest: list[str]) -> ReportTable:
    """Group messages by signature; those of judges by topic, as judges word the same thing differently."""
    marks = [row["signature"] or signature(row["message"]) for row in errors]
    topic = group_by_topic(mark for row, mark in zip(errors, marks, strict=True) if row["kind"] == "VERDICT")
    groups: dict[tuple[str, str], Rows] = defaultdict(list)
    for row, mark in zip(errors, marks, strict=True):
        groups[row["kind"], topic[mark] if row["kind"] == "VERDICT" else mark].append(row)
    rows: list[tuple[Cell, ...]] = []
    for (kind, mark), group in groups.items():
        seen = {row["run_id"] for row in group}
        phases: Counter[str] = Counter()
        for row in group:
            phases[row["build_phase"] or NO_PHASE] += row["times"]
        runs = RunIds(tuple(run for run in newest if run in seen))
        example = min(group, key=lambda row: (row["run_id"], row["seq"]))["message"]
        rate = single_cases(len(seen), len(newest))
        rows.append((mark, kind, _list_phases(phases), sum(phases.values()), rate, example, runs))
    rows.sort(key=lambda row: (_sort_key(row[4]), -int(str(row[3])), str(row[0]), str(row[1])))
    return ReportTable(
        "errors",
        "Recurring errors",
        ("signature", "kind", "build_phases", "times", "seen_in", "example", "runs"),
        tuple(rows),
        "Seen in: the share of all runs. Messages that differ only in names, paths and numbers count as one.",
    )


def _rate_failed(tasks: Rows) -> Proportion:
    return tally((task["run_id"], bool(task["failures"])) for task in tasks)


def _rate_unfinished(tasks: Rows) -> Proportion:
    return tally(
        (task["run_id"], not (task["done"] or task["skipped"] or task["replaced"])) for task in tasks
    )


def _average_launches(tasks: Rows) -> Cell:
    runs: dict[str, list[int]] = defaultdict(list)
    for task in tasks:
        runs[task["run_id"]].append(task["launches"])
    return mean([fmean(launches) for launches in runs.values()])


def _sort_key(cell: Cell) -> tuple[float, int]:
    """Sort the rate with the highest lower bound first."""
    assert isinstance(cell, Proportion)
    return -cell.limits()[0], -cell.hits


def _order_phase(phase: str) -> tuple[int, str]:
    return _ORDER.index(phase) if phase in _ORDER else len(_ORDER), phase


def _list_phases(phases: Counter[str]) -> str:
    return ", ".join(f"{phase} {phases[phase]}" for phase in sorted(phases, key=lambda p: (-phases[p], p)))
