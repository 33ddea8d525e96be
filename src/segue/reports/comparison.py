"""Compares agents and models on the same source, and reports only significant differences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from statistics import fmean

from msgspec import Struct
from msgspec.structs import replace

from segue.flow.phases import PHASES
from segue.reports.formatting import format_cell
from segue.reports.recovery import NO_DIFFERENCE
from segue.reports.report import Cell, DatasetReport, ReportTable
from segue.reports.selection import Dataset, Rows
from segue.reports.statistics import CONFIDENCE, Difference, Proportion, mean, newcombe, welch
from segue.reports.usage import UsageRow, read_usage, read_work

MEASURES = ("launches", "seconds", "tokens", "cost_usd", "bash_calls", "reads_before_edit")
"""What a run costs, besides whether it passes."""

_COUNTED = ("done", "failed", "needs_human")


class Setting(Struct, frozen=True):
    """The runs of one agent and model on one source."""

    source: str
    name: str
    passed: Proportion
    values: Mapping[str, tuple[float, ...]]
    recovered: Proportion

    def to_row(self) -> tuple[Cell, ...]:
        """Return its row of the table."""
        means = (mean(self.values[measure]) for measure in MEASURES)
        return (self.source, self.name, self.passed, *means, self.recovered)


def report_comparison(dataset: Dataset) -> DatasetReport:
    """Report which agent and model does better on the same source, where the difference is significant."""
    used, work = read_usage(dataset), read_work(dataset)
    runs = [
        {**run, **_measure(used[run["run_id"]], work.get(run["run_id"], 0))} for run in dataset.ask("runs")
    ]
    counted = [run for run in runs if run["state"] in _COUNTED]
    details = RunDetails.read(dataset)
    groups: dict[tuple[str, str], Rows] = defaultdict(list)
    for run in counted:
        name = " ".join(part for part in (run["agent"], run["model"]) if part)
        groups[str(run["source"]), name].append(run)
    settings = [_summarize(*key, group, details) for key, group in sorted(groups.items())]
    left_out = len(runs) - len(counted)
    notes = [_count_left_out(left_out)] if left_out else []
    tables = (_tabulate_settings(settings), _tabulate_differences(settings))
    return DatasetReport("compare", "Comparison", len(counted), tables, (*_describe(tables[1]), *notes))


class RunDetails(Struct, frozen=True):
    """What is known of the runs besides their own rows."""

    incomplete: set[str]
    """Runs with a task that the agents did not finish, whatever the state of the run."""
    tools: Mapping[str, Mapping[str, float]]
    attempts: Mapping[str, Sequence[bool]]
    """For each failed verdict: True if the next one was PASS."""

    @classmethod
    def read(cls, dataset: Dataset) -> RunDetails:
        """Read the details of all selected runs."""
        attempts: dict[str, list[bool]] = defaultdict(list)
        for row in dataset.ask("recovery"):
            attempts[row["run_id"]].append(bool(row["recovered"]))
        tasks = [task for task in dataset.ask("tasks") if task["ended"]]
        incomplete = {task["run_id"] for task in tasks if not (task["done"] or task["replaced"])}
        return cls(incomplete, _count_tools(dataset.ask("tools")), attempts)


def _measure(used: UsageRow, work_ms: int) -> dict[str, float | None]:
    """Return the measures of a run; None where the agents report nothing."""
    usage = used.usage
    return {
        "launches": used.launches,
        "seconds": work_ms / 1000,
        "tokens": usage.tokens or None,
        "cost_usd": usage.cost_usd or None,
    }


def _summarize(source: str, name: str, runs: Rows, details: RunDetails) -> Setting:
    known = [{**run, **details.tools.get(run["run_id"], {})} for run in runs]
    values = {
        measure: tuple(float(run[measure]) for run in known if run.get(measure) is not None)
        for measure in MEASURES
    }
    passed = [run for run in runs if run["state"] == "done" and run["run_id"] not in details.incomplete]
    tried = [good for run in runs for good in details.attempts.get(run["run_id"], ())]
    return Setting(
        source, name, Proportion(len(passed), len(runs)), values, Proportion(sum(tried), len(tried))
    )


def _count_tools(launches: Rows) -> dict[str, dict[str, float]]:
    """Count per run: Bash calls, and files read before the first edit, averaged over its launches."""
    bash: dict[str, int] = defaultdict(int)
    reads: dict[str, list[int]] = defaultdict(list)
    for launch in launches:
        parts = str(launch["step"]).split("/")
        phase = PHASES.get(parts[-2]) if len(parts) > 1 else None
        if phase is None or not phase.edits:
            continue
        bash[launch["run_id"]] += launch["bash"]
        if launch["reads_before_edit"] is not None:
            reads[launch["run_id"]].append(launch["reads_before_edit"])
    found: dict[str, dict[str, float]] = {run: {"bash_calls": float(count)} for run, count in bash.items()}
    for run, counts in reads.items():
        found[run]["reads_before_edit"] = fmean(counts)
    return found


def _tabulate_settings(settings: Sequence[Setting]) -> ReportTable:
    return ReportTable(
        "settings",
        "Agents and models on the same source",
        ("source", "setting", "passed", *MEASURES, "recovered"),
        tuple(setting.to_row() for setting in settings),
        "Averages per run. Passed: the agents finished every task. Recovered: the share of failed verdicts"
        " that were followed by PASS.",
    )


def _tabulate_differences(settings: Sequence[Setting]) -> ReportTable:
    groups: dict[str, list[Setting]] = defaultdict(list)
    for setting in settings:
        groups[setting.source].append(setting)
    rows = [row for source in sorted(groups) for row in _compare_pairs(source, groups[source])]
    return ReportTable(
        "differences",
        "Differences",
        ("source", "one", "other", "measure", "difference", "says"),
        tuple(rows),
        "Intervals are widened for the number of pairs and measures. Besides the pass rate, only significant"
        " differences are shown.",
    )


def _compare_pairs(source: str, settings: Sequence[Setting]) -> Iterator[tuple[Cell, ...]]:
    pairs = list(combinations(settings, 2))
    for one, other in pairs:
        level = 1 - (1 - CONFIDENCE) / len(pairs)
        passed = newcombe(one.passed, other.passed, level)
        yield (
            source,
            one.name,
            other.name,
            "passed",
            passed,
            _conclude(passed, one, other, "passes more often"),
        )
        level = 1 - (1 - CONFIDENCE) / (len(pairs) * len(MEASURES))
        for measure in MEASURES:
            found = welch(one.values[measure], other.values[measure], level)
            if found is not None and found.is_significant:
                conclusion = _conclude(found, one, other, "takes more")
                yield source, one.name, other.name, measure, replace(found, unit=measure), conclusion


def _conclude(found: Difference | None, one: Setting, other: Setting, what: str) -> str:
    if found is None or not found.is_significant:
        return NO_DIFFERENCE
    return f"{one.name if found.value > 0 else other.name} {what}"


def _describe(differences: ReportTable) -> Iterator[str]:
    """Describe who passes more often than whom, or that there is no significant difference."""
    passes = [row for row in differences.rows if row[3] == "passed"]
    significant = [row for row in passes if row[5] != NO_DIFFERENCE]
    if passes and not significant:
        yield f"Pass rate: {NO_DIFFERENCE} between any two settings on the same source."
    for source, one, other, _, found, _ in significant:
        assert isinstance(found, Difference)
        better, worse = (one, other) if found.value > 0 else (other, one)
        yield f"{better} passes more often than {worse} on {str(source)[:60]!r}: {format_cell(found)}."


def _count_left_out(count: int) -> str:
    if count == 1:
        return "1 run that has not ended or was stopped is not counted."
    return f"{count} runs that have not ended or were stopped are not counted."
