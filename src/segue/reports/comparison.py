"""Comparison: agents and models on the same prompt, and whether they differ at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean

from segue.reports.recovery import NO_DIFFERENCE
from segue.reports.report import Cell, Report, Table
from segue.reports.selection import Dataset, Rows
from segue.reports.statistics import CONFIDENCE, Difference, Rate, mean, newcombe, welch
from segue.reports.wording import wording

MEASURES = ("launches", "seconds", "tokens", "cost_usd", "bash_calls", "reads_before_edit")
"""What a run takes: side questions beside whether it passes."""

_EDITING = ("execute", "address", "resolve")
_COUNTED = ("done", "failed", "needs_human")


@dataclass(frozen=True, slots=True)
class Setting:
    """The runs of one agent with one model on one source."""

    source: str
    name: str
    passed: Rate
    values: Mapping[str, tuple[float, ...]]
    recovered: Rate

    def row(self) -> tuple[Cell, ...]:
        """Its line in the table."""
        means = (mean(self.values[measure]) for measure in MEASURES)
        return (self.source, self.name, self.passed, *means, self.recovered)


def comparison(dataset: Dataset) -> Report:
    """Who does better on the same source, with no ranking where the difference is noise."""
    runs = dataset.ask("runs")
    counted = [run for run in runs if run["state"] in _COUNTED]
    seen = Seen.of(dataset)
    groups: dict[tuple[str, str], Rows] = defaultdict(list)
    for run in counted:
        name = " ".join(part for part in (run["agent"], run["model"]) if part)
        groups[str(run["source"]), name].append(run)
    settings = [_setting(*key, group, seen) for key, group in sorted(groups.items())]
    left_out = len(runs) - len(counted)
    notes = [_left_out(left_out)] if left_out else []
    tables = (_settings(settings), _differences(settings))
    return Report("compare", "Comparison", len(counted), tables, (*_sentences(tables[1]), *notes))


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of each run beside its own row."""

    incomplete: set[str]
    """Runs with a task that the agents did not do, whatever their state says."""
    tools: Mapping[str, Mapping[str, float]]
    attempts: Mapping[str, Sequence[bool]]
    """After each failed verdict: whether the next one was PASS."""

    @classmethod
    def of(cls, dataset: Dataset) -> Seen:
        """Ask for it."""
        attempts: dict[str, list[bool]] = defaultdict(list)
        for row in dataset.ask("recovery"):
            attempts[row["run_id"]].append(bool(row["recovered"]))
        tasks = [task for task in dataset.ask("tasks") if task["ended"]]
        incomplete = {task["run_id"] for task in tasks if not (task["done"] or task["replaced"])}
        return cls(incomplete, _tools(dataset.ask("tools")), attempts)


def _setting(source: str, name: str, runs: Rows, seen: Seen) -> Setting:
    known = [{**run, **seen.tools.get(run["run_id"], {})} for run in runs]
    values = {
        measure: tuple(float(run[measure]) for run in known if run.get(measure) is not None)
        for measure in MEASURES
    }
    passed = [run for run in runs if run["state"] == "done" and run["run_id"] not in seen.incomplete]
    tried = [good for run in runs for good in seen.attempts.get(run["run_id"], ())]
    return Setting(source, name, Rate(len(passed), len(runs)), values, Rate(sum(tried), len(tried)))


def _tools(launches: Rows) -> dict[str, dict[str, float]]:
    """Per run: Bash calls, and files read before the first edit of a launch, on average over its launches."""
    bash: dict[str, int] = defaultdict(int)
    reads: dict[str, list[int]] = defaultdict(list)
    for launch in launches:
        parts = str(launch["step"]).split("/")
        if len(parts) < 2 or parts[-2] not in _EDITING:
            continue
        bash[launch["run_id"]] += launch["bash"]
        if launch["reads_before_edit"] is not None:
            reads[launch["run_id"]].append(launch["reads_before_edit"])
    found: dict[str, dict[str, float]] = {run: {"bash_calls": float(count)} for run, count in bash.items()}
    for run, counts in reads.items():
        found[run]["reads_before_edit"] = fmean(counts)
    return found


def _settings(settings: Sequence[Setting]) -> Table:
    return Table(
        "settings",
        "Agents and models on the same source",
        ("source", "setting", "passed", *MEASURES, "recovered"),
        tuple(setting.row() for setting in settings),
        "Averages per run. Passed: the agents did every task. Recovered: of the failed verdicts,"
        " those after which the next one was PASS.",
    )


def _differences(settings: Sequence[Setting]) -> Table:
    groups: dict[str, list[Setting]] = defaultdict(list)
    for setting in settings:
        groups[setting.source].append(setting)
    rows = [row for source in sorted(groups) for row in _pairs(source, groups[source])]
    return Table(
        "differences",
        "Differences",
        ("source", "one", "other", "measure", "difference", "says"),
        tuple(rows),
        "One minus other. Intervals are widened for the number of pairs and measures. Beside the pass rate,"
        " only differences that are shown are listed.",
    )


def _pairs(source: str, settings: Sequence[Setting]) -> Iterator[tuple[Cell, ...]]:
    pairs = list(combinations(settings, 2))
    for one, other in pairs:
        level = 1 - (1 - CONFIDENCE) / len(pairs)
        passed = newcombe(one.passed, other.passed, level)
        yield source, one.name, other.name, "passed", passed, _says(passed, one, other, "passes more often")
        level = 1 - (1 - CONFIDENCE) / (len(pairs) * len(MEASURES))
        for measure in MEASURES:
            found = welch(one.values[measure], other.values[measure], level)
            if found is not None and found.shown:
                said = _says(found, one, other, "takes more")
                yield source, one.name, other.name, measure, replace(found, unit=measure), said


def _says(found: Difference | None, one: Setting, other: Setting, what: str) -> str:
    if found is None or not found.shown:
        return NO_DIFFERENCE
    return f"{one.name if found.value > 0 else other.name} {what}"


def _sentences(differences: Table) -> Iterator[str]:
    """Who passes more often than whom; or that nobody is shown to."""
    passes = [row for row in differences.rows if row[3] == "passed"]
    shown = [row for row in passes if row[5] != NO_DIFFERENCE]
    if passes and not shown:
        yield f"Pass rate: {NO_DIFFERENCE} between any two on the same source."
    for source, one, other, _, found, _ in shown:
        assert isinstance(found, Difference)
        better, worse = (one, other) if found.value > 0 else (other, one)
        yield f"{better} passes more often than {worse} on {str(source)[:60]!r}: {wording(found)}."


def _left_out(count: int) -> str:
    if count == 1:
        return "1 run that is under way or was stopped is not counted."
    return f"{count} runs that are under way or were stopped are not counted."
