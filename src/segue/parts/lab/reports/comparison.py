"""Compares agents and models on the same source, and reports only significant differences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from msgspec import Struct
from msgspec.structs import replace

from segue.parts.lab.experiment.report import tabulate_experiments
from segue.parts.lab.reports.report import Cell, DatasetReport, ReportTable, format_cell, make_table
from segue.parts.lab.reports.runs import (
    RunDetails,
    make_outcome,
    measure_runs,
    tabulate_by_setting,
    tabulate_trend,
)
from segue.parts.lab.reports.selection import Dataset, name_setting
from segue.parts.lab.reports.statistics import (
    CONFIDENCE,
    FEW_RUNS,
    FEWEST_RUNS,
    NO_DIFFERENCE,
    Difference,
    Proportion,
    TaskCase,
    conclude,
    mean,
    subtract,
    subtract_paired,
    tally,
    welch,
)
from segue.reports.timeline import Rows

MEASURES = ("launches", "seconds", "tokens", "cost_usd", "bash_calls", "reads_before_edit")
"""What a run costs, besides whether it passes."""

ALL_SOURCES = "(all)"
"""Sources that both settings worked on, taken together."""

_RATES = {"passed": "passes more often", "passed_first": "passes more often at first"}


class Setting(Struct, frozen=True):
    """The runs of one agent and model on one source."""

    source: str
    name: str
    cases: Mapping[str, Sequence[TaskCase]]
    """Whether each run passed, in the order of their start, and the first attempt at each task."""
    rates: Mapping[str, Proportion]
    """The same as rates."""
    is_planned: bool
    """Whether agents planned the tasks: then those of different runs are not the same."""
    values: Mapping[str, tuple[float, ...]]
    recovered: Proportion

    def to_row(self) -> tuple[Cell, ...]:
        """Return its row of the table."""
        means = (mean(self.values[measure]) for measure in MEASURES)
        return (self.source, self.name, *(self.rates[name] for name in _RATES), *means, self.recovered)


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
    overview = (tabulate_by_setting(outcomes, dataset), tabulate_trend(outcomes, dataset))
    experiments = tabulate_experiments(dataset)
    tables = (*overview, *([experiments] if experiments else []), _tabulate_settings(settings), differences)
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
    first = [
        TaskCase(run, f"{source}/{task}", passed)
        for run in ids
        for task, passed in details.first.get(run, {}).items()
    ]
    cases = {"passed": [TaskCase(run, source, run in good) for run in ids], "passed_first": first}
    return Setting(
        source,
        name,
        cases,
        _rate_cases(cases),
        not details.planned.isdisjoint(ids),
        values,
        tally((run, helped) for run in ids for helped in details.attempts.get(run, ())),
    )


def _rate_cases(cases: Mapping[str, Iterable[TaskCase]]) -> dict[str, Proportion]:
    return {name: tally((case.run, case.happened) for case in found) for name, found in cases.items()}


def _tabulate_settings(settings: Sequence[Setting]) -> ReportTable:
    return make_table("settings", (setting.to_row() for setting in settings))


def _tabulate_differences(settings: Sequence[Setting]) -> ReportTable:
    pairs = [pair for group in _group_settings(settings) for pair in combinations(group, 2)]
    tested = sum(_is_comparable(*pair, measure) for pair in pairs for measure in _RATES)
    rows = [row for pair in pairs for row in _compare(*pair, tested, len(pairs) * len(MEASURES))]
    return make_table("differences", rows)


def _group_settings(settings: Sequence[Setting]) -> Iterator[list[Setting]]:
    """Yield the settings of each source, and those of all sources that they share."""
    sources: dict[str, list[Setting]] = defaultdict(list)
    names: dict[str, list[Setting]] = defaultdict(list)
    for setting in settings:
        sources[setting.source].append(setting)
        names[setting.name].append(setting)
    yield from (sources[source] for source in sorted(sources))
    for one, other in combinations(sorted(names), 2):
        yield from _join_sources(names[one], names[other])


def _join_sources(one: Sequence[Setting], other: Sequence[Setting]) -> Iterator[list[Setting]]:
    """Yield two settings on all sources that both worked on, with equally many runs of each."""
    shared = [(a, b) for a in one for b in other if a.source == b.source]
    if len(shared) > 1:
        fewest = [min(len(a.cases["passed"]), len(b.cases["passed"])) for a, b in shared]
        for_one, for_other = zip(*shared, strict=True)
        yield [_join(for_one, fewest), _join(for_other, fewest)]


def _join(parts: Sequence[Setting], runs: Sequence[int]) -> Setting:
    """Join the settings of several sources, with equally many runs of each: the first ones."""
    passed = [case for part, most in zip(parts, runs, strict=True) for case in part.cases["passed"][:most]]
    kept = {case.run for case in passed}
    first = [case for part in parts for case in part.cases["passed_first"] if case.run in kept]
    cases = {"passed": passed, "passed_first": first}
    return Setting(
        ALL_SOURCES,
        parts[0].name,
        cases,
        _rate_cases(cases),
        any(part.is_planned for part in parts),
        dict.fromkeys(MEASURES, ()),
        Proportion(()),
    )


def _compare(one: Setting, other: Setting, rates: int, measures: int) -> Iterator[tuple[Cell, ...]]:
    """Yield the differences of two settings; `rates` and `measures` are how many are compared in all."""
    for measure, words in _RATES.items():
        found = _compare_rates(one, other, measure, 1 - (1 - CONFIDENCE) / max(1, rates))
        if found is not None or measure == "passed":
            conclusion = conclude(found, f"{one.name} {words}", f"{other.name} {words}")
            yield one.source, one.name, other.name, measure, found, conclusion
    for measure in MEASURES:
        found = welch(one.values[measure], other.values[measure], 1 - (1 - CONFIDENCE) / measures)
        if found is not None and found.is_significant:
            conclusion = conclude(found, f"{one.name} takes more", f"{other.name} takes more")
            yield one.source, one.name, other.name, measure, replace(found, unit=measure), conclusion


def _compare_rates(one: Setting, other: Setting, measure: str, level: float) -> Difference | None:
    """Return the difference, paired by task or source where both settings worked on the same ones."""
    if not _is_comparable(one, other, measure):
        return None
    is_paired = one.source == ALL_SOURCES if measure == "passed" else not (one.is_planned or other.is_planned)
    found = subtract_paired(one.cases[measure], other.cases[measure], level) if is_paired else None
    return found or subtract(one.rates[measure], other.rates[measure], level)


def _is_comparable(one: Setting, other: Setting, measure: str) -> bool:
    return min(len(one.rates[measure].runs), len(other.rates[measure].runs)) >= FEWEST_RUNS


def _describe(differences: ReportTable) -> Iterator[str]:
    """Describe who passes more often than whom, or that there is no significant difference."""
    rates = [row for row in differences.rows if row[3] in _RATES and row[4] is not None]
    significant = [row for row in rates if row[5] != NO_DIFFERENCE]
    if rates and not significant:
        yield f"Pass rate: {NO_DIFFERENCE} between any two settings on the same source."
    for source, one, other, measure, found, _ in significant:
        assert isinstance(found, Difference)
        better, worse = (one, other) if found.value > 0 else (other, one)
        gain = found if found.value > 0 else Difference(-found.value, -found.high, -found.low)
        place = "all sources" if source == ALL_SOURCES else repr(str(source)[:60])
        how = _RATES[str(measure)]
        yield f"{better} {how} than {worse} on {place}: {format_cell(gain)}."


def _warn(settings: Sequence[Setting], left_out: int) -> Iterator[str]:
    """Say which samples are small, and what was not counted."""
    small = sum(len(setting.cases["passed"]) < FEW_RUNS for setting in settings)
    if small:
        yield (
            f"Small samples: {small} of {len(settings)} settings have fewer than {FEW_RUNS} runs;"
            " only very large differences can show."
        )
    if left_out == 1:
        yield "1 run that has not ended or was stopped is not counted."
    elif left_out:
        yield f"{left_out} runs that have not ended or were stopped are not counted."
