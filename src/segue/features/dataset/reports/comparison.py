"""Compares agents and models on the same source, and reports only significant differences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from msgspec import Struct
from msgspec.structs import replace

from segue.features.dataset.reports.report import Cell, DatasetReport, ReportTable, format_cell, make_table
from segue.features.dataset.reports.runs import (
    RunDetails,
    make_outcome,
    measure_runs,
    tabulate_by_setting,
)
from segue.features.dataset.reports.selection import Dataset, name_setting
from segue.features.dataset.reports.statistics import (
    CONFIDENCE,
    FEW_RUNS,
    FEWEST_PROMPTS,
    NO_DIFFERENCE,
    Difference,
    Proportion,
    RateComparison,
    RunCases,
    compare_runs,
    conclude,
    mean,
    tally,
    tally_runs,
    welch,
)
from segue.store.rows import Rows

MEASURES = ("launches", "seconds", "tokens", "cost_usd", "bash_calls", "reads_before_edit")
"""What a run costs, besides whether it passes."""

ALL_SOURCES = "(all)"
"""Sources that both settings worked on, taken together."""

_RATES = {"passed": "passes more often", "passed_first": "passes more often at first"}


class Setting(Struct, frozen=True):
    """The runs of one agent and model on one source, or on several."""

    source: str
    name: str
    runs: Mapping[str, Sequence[RunCases]]
    """Whether each run passed, in the order of their start, and the first attempt at each of its tasks."""
    values: Mapping[str, tuple[float, ...]]
    recovered: Proportion

    def to_row(self) -> tuple[Cell, ...]:
        """Return its row of the table."""
        means = (mean(self.values[measure]) for measure in MEASURES)
        return (self.source, self.name, *(self.rate(name) for name in _RATES), *means, self.recovered)

    def rate(self, measure: str) -> Proportion:
        """Return one of the rates."""
        return tally_runs(self.runs[measure])


def report_comparison(dataset: Dataset) -> DatasetReport:
    """Report which agent and model does better on the same source, where the difference is significant."""
    counted = dataset.compute(measure_runs)
    left_out = len(dataset.ask("runs")) - len(counted)
    details = dataset.compute(RunDetails.read)
    groups: dict[tuple[str, str], Rows] = defaultdict(list)
    for run in counted:
        groups[str(run["source"]), name_setting(run)].append(run)
    settings = [_summarize(*key, group, details) for key, group in sorted(groups.items())]
    outcomes = [make_outcome(run, details) for run in counted]
    differences = _tabulate_differences(settings)
    tables = (tabulate_by_setting(outcomes), _tabulate_settings(settings), differences)
    notes = (*_describe(differences), *_warn(settings, left_out))
    return DatasetReport("compare", "Comparison", len(counted), tables, notes)


def _summarize(source: str, name: str, runs: Rows, details: RunDetails) -> Setting:
    known = [{**run, **details.tools.get(run["run_id"], {})} for run in runs]
    values = {
        measure: tuple(float(run[measure]) for run in known if run.get(measure) is not None)
        for measure in MEASURES
    }
    ids = [str(run["run_id"]) for run in runs]
    good = {run["run_id"] for run in runs if make_outcome(run, details).passed}
    cases = {
        "passed": [RunCases(run, source, (run in good,)) for run in ids],
        "passed_first": [RunCases(run, source, tuple(details.first.get(run, {}).values())) for run in ids],
    }
    recovered = tally((run, helped) for run in ids for helped in details.attempts.get(run, ()))
    return Setting(source, name, cases, values, recovered)


def _tabulate_settings(settings: Sequence[Setting]) -> ReportTable:
    return make_table("settings", (setting.to_row() for setting in settings))


def _tabulate_differences(settings: Sequence[Setting]) -> ReportTable:
    pairs = list(_pair(settings))
    rates = 1 - (1 - CONFIDENCE) / max(1, len(pairs) * len(_RATES))
    measures = 1 - (1 - CONFIDENCE) / max(1, len(pairs) * len(MEASURES))
    return make_table("differences", (row for pair in pairs for row in _compare(*pair, rates, measures)))


def _pair(settings: Sequence[Setting]) -> Iterator[tuple[Setting, Setting]]:
    """Yield the settings of each source, and those of all sources that they share."""
    sources: dict[str, list[Setting]] = defaultdict(list)
    names: dict[str, list[Setting]] = defaultdict(list)
    for setting in settings:
        sources[setting.source].append(setting)
        names[setting.name].append(setting)
    shared = {
        pair: [(a, b) for a in names[pair[0]] for b in names[pair[1]] if a.source == b.source]
        for pair in combinations(sorted(names), 2)
    }
    for source in sorted(sources):
        yield from combinations(sources[source], 2)
    for found in shared.values():
        if len(found) > 1:
            yield _join([a for a, _ in found]), _join([b for _, b in found])


def _join(parts: Sequence[Setting]) -> Setting:
    """Join the settings of several sources."""
    runs = {measure: [run for part in parts for run in part.runs[measure]] for measure in _RATES}
    return Setting(ALL_SOURCES, parts[0].name, runs, dict.fromkeys(MEASURES, ()), Proportion(()))


def _compare(one: Setting, other: Setting, rates: float, measures: float) -> Iterator[tuple[Cell, ...]]:
    """Yield the differences of two settings, at these levels of confidence."""
    for measure, words in _RATES.items():
        found = compare_runs(one.runs[measure], other.runs[measure], rates)
        here = found.here if found else None
        if here is not None or measure == "passed":
            says = conclude(here, f"{one.name} {words}", f"{other.name} {words}")
            beyond = _describe_beyond(found) if one.source == ALL_SOURCES else None
            yield one.source, one.name, other.name, measure, here, says, beyond
    for measure in MEASURES:
        found_measure = welch(one.values[measure], other.values[measure], measures)
        if found_measure is not None and found_measure.is_significant:
            says = conclude(found_measure, f"{one.name} takes more", f"{other.name} takes more")
            difference = replace(found_measure, unit=measure)
            yield one.source, one.name, other.name, measure, difference, says, None


def _describe_beyond(found: RateComparison | None) -> Cell:
    """Return the difference for prompts like these, or that it cannot be told."""
    if found is None:
        return None
    return found.beyond or f"cannot tell: {found.prompts} of {FEWEST_PROMPTS} prompts"


def _describe(differences: ReportTable) -> Iterator[str]:
    """Describe who passes more often than whom, or that there is no significant difference."""
    rates = [row for row in differences.rows if row[3] in _RATES and row[4] is not None]
    significant = [row for row in rates if row[5] != NO_DIFFERENCE]
    if rates and not significant:
        yield f"Pass rate: {NO_DIFFERENCE} between any two settings on the same source."
    for source, one, other, measure, found, _, beyond in significant:
        assert isinstance(found, Difference)
        better, worse = (one, other) if found.value > 0 else (other, one)
        place = "all sources" if source == ALL_SOURCES else repr(str(source)[:60])
        how = _RATES[str(measure)]
        others = f"; on prompts like these: {_turn(beyond, found)}" if beyond else ""
        yield f"{better} {how} than {worse} on {place}: {_turn(found, found)}{others}."


def _turn(cell: Cell, found: Difference) -> str:
    """Format a difference as that of the better one to the worse one."""
    if isinstance(cell, Difference) and found.value < 0:
        cell = Difference(-cell.value, -cell.high, -cell.low)
    return format_cell(cell)


def _warn(settings: Sequence[Setting], left_out: int) -> Iterator[str]:
    """Say which samples are small, and what was not counted."""
    small = sum(len(setting.runs["passed"]) < FEW_RUNS for setting in settings)
    if small:
        yield (
            f"Small samples: {small} of {len(settings)} settings have fewer than {FEW_RUNS} runs;"
            " only very large differences can show."
        )
    if left_out == 1:
        yield "1 run that has not ended or was stopped is not counted."
    elif left_out:
        yield f"{left_out} runs that have not ended or were stopped are not counted."
