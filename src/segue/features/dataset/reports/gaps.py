"""Reports knowledge gaps: tasks and errors that recur across runs; the matrix of phases and agents."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from msgspec import Struct

from segue.domain.amounts import format_count
from segue.domain.outcome import signature
from segue.domain.plan import BuildPhase
from segue.features.dataset.reports.report import (
    Cell,
    DatasetReport,
    ReportTable,
    RunIds,
    format_cell,
    format_percent,
    make_table,
)
from segue.features.dataset.reports.runs import read_usage
from segue.features.dataset.reports.selection import Dataset, count_begun, name_setting
from segue.features.dataset.reports.statistics import (
    CONFIDENCE,
    Proportion,
    generalize,
    mean,
    single_cases,
    tally,
)
from segue.features.dataset.reports.topics import group_by_topic
from segue.store.rows import Rows

MATRIX = "first_verdicts"
SHADES = 10
"""Shades of a heat map: 0 for a rate of 0, 10 for a rate of 1."""


class MatrixCell(Struct, frozen=True):
    """One cell of the matrix."""

    text: str
    """All of it in one line; empty without cases."""
    shade: int | None
    """None without cases."""
    column: str
    rate: str = ""
    interval: str = ""
    basis: str = ""
    """How many cases and runs there are."""
    is_gap: bool = False


class Matrix(Struct, frozen=True):
    """The rates of a table, by its first two columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[MatrixCell, ...]], ...]


def pivot(table: ReportTable) -> Matrix:
    """Return the matrix of a table whose columns are a row's name, a column's name and a rate."""
    cells = {(str(row), str(column)): cell for row, column, cell in table.rows}
    columns = tuple(sorted({column for _, column in cells}))
    names = dict.fromkeys(row for row, _ in cells)
    rates = [cell for cell in cells.values() if isinstance(cell, Proportion)]
    rows = tuple(
        (name, tuple(_make_cell(column, cells.get((name, column)), rates) for column in columns))
        for name in names
    )
    return Matrix(columns, rows)


def is_gap(rate: Proportion, rates: Sequence[Proportion]) -> bool:
    """Return whether a rate is surely below that of all cases, with intervals widened for their number."""
    if len(rates) < 2 or rate.interval is None:
        return False
    return rate.limits(1 - (1 - CONFIDENCE) / len(rates))[1] < find_average(rates)


def find_average(rates: Sequence[Proportion]) -> float:
    """Return the rate of all cases together."""
    return sum(rate.hits for rate in rates) / sum(rate.n for rate in rates)


def _make_cell(column: str, cell: Cell, rates: Sequence[Proportion]) -> MatrixCell:
    if not isinstance(cell, Proportion) or cell.value is None:
        return MatrixCell("", None, column)
    runs = len(cell.runs)
    limits = "–".join(map(format_percent, cell.interval)) if cell.interval else ""
    return MatrixCell(
        format_cell(cell),
        round(cell.value * SHADES),
        column,
        f"{format_percent(cell.value)} %",
        f"[{limits}]" if limits else "no interval",
        f"{cell.hits} of {cell.n}, {format_count(runs, cell.unit)}",
        is_gap(cell, rates),
    )


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
    names = _read_titles(dataset.ask("titles"))
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
    sources = {str(run["run_id"]): str(run["source"]) for run in runs}
    groups: dict[tuple[str, str], list[tuple[str, bool]]] = defaultdict(list)
    for row in dataset.ask("first_verdicts"):
        cell = (row["build_phase"] or NO_PHASE, settings[row["run_id"]])
        groups[cell].append((str(row["run_id"]), bool(row["passed"])))
    found = {cell: generalize(cases, sources) for cell, cases in groups.items()}
    order = sorted(found, key=lambda key: (_order_phase(key[0]), key[1]))
    return make_table(MATRIX, ((*key, found[key]) for key in order))


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
    return make_table("build_phases", rows)


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
    return make_table("tasks", rows)


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
    return make_table("errors", rows)


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


def _read_titles(rows: Rows) -> dict[str, dict[str, str]]:
    """Return the titles of the tasks of each run, as the latest plan has them."""
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        named = row["data"] if isinstance(row["data"], dict) else {}
        found.setdefault(row["run_id"], {}).update({str(key): str(title) for key, title in named.items()})
    return found
