"""Reports an experiment: how far it is, what its arms show and could show, and whether it may be stopped."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.run import RunKind, RunState
from segue.parts.lab.experiment.power import POWER, RATES, Design, find_smallest_difference
from segue.parts.lab.reports.report import (
    Cell,
    DatasetReport,
    ReportTable,
    format_cell,
    format_percent,
    make_table,
    show_queries,
)
from segue.parts.lab.reports.runs import (
    RunDetails,
    RunOutcome,
    make_outcome,
    measure_runs,
    tabulate_by_setting,
)
from segue.parts.lab.reports.selection import Dataset, Selection, name_setting
from segue.parts.lab.reports.statistics import (
    CONFIDENCE,
    FEWEST_PROMPTS,
    FEWEST_RUNS,
    NO_DIFFERENCE,
    Difference,
    RateComparison,
    RunCases,
    balance,
    compare_runs,
    conclude,
    mean,
    tally_runs,
    welch,
)
from segue.reports.timeline import Rows

if TYPE_CHECKING:
    from segue.store.store import Store


class Families:
    """The level of each comparison: those of one experiment together have 95 %, and all others together."""

    def __init__(self, dataset: Dataset, pairs: Sequence[tuple[str, str]]) -> None:
        """Know the settings of each experiment, and the pairs that are compared on all they share."""
        settings = {run["run_id"]: name_setting(run) for run in dataset.ask("runs")}
        rows = dataset.ask("trials")
        self._experiments: dict[str, set[str]] = defaultdict(set)
        for row in rows:
            self._experiments[settings[row["run_id"]]].add(str(row["experiment"]))
        names = dict.fromkeys(str(row["experiment"]) for row in rows)
        self._levels = {name: read_arms(dataset, name)[0].design.level for name in names}
        counts = Counter(self._find(pair) for pair in pairs)
        rest = Design(2, 1, 1).comparisons * max(1, counts[""])
        self._levels[""] = 1 - (1 - CONFIDENCE) / rest

    def find(self, pair: tuple[str, str]) -> float:
        """Return the level for two settings."""
        return self._levels[self._find(pair)]

    def _find(self, pair: tuple[str, str]) -> str:
        one, other = (self._experiments.get(name, set()) for name in pair)
        return next(iter(one)) if len(one) == 1 and one == other else ""


def describe_beyond(found: RateComparison | None) -> Cell:
    """Return the difference for prompts like these, or that it cannot be told."""
    if found is None:
        return None
    return found.beyond or f"cannot tell: {found.prompts} of {FEWEST_PROMPTS} prompts"


_OVER = (RunState.DONE, RunState.NEEDS_HUMAN)
"""States in which a trial is over, as `segue experiment` counts."""

_MEASURES = ("cost_usd", "seconds")
_UNKNOWN = 0.5
"""The pass rate at which differences are hardest to find."""


class ExperimentPlan(Struct, frozen=True):
    """What was planned when the newest trial began; all 0 in experiments of older versions."""

    arms: int
    prompts: int
    trials: int
    looks: int

    @property
    def planned(self) -> int:
        """The number of trials in all."""
        return self.arms * self.prompts * self.trials

    @property
    def design(self) -> Design:
        """What is compared."""
        return Design(self.arms, self.prompts, self.trials, self.looks)


class ArmTrial(Struct, frozen=True):
    """One trial that counts: how it ended, and what it took."""

    outcome: RunOutcome
    first: tuple[bool, ...]
    """Whether the first attempt at each of its tasks passed."""
    values: Mapping[str, float | None]


class TrialArm(Struct, frozen=True):
    """The trials of one arm."""

    name: str
    started: int
    over: int
    trials: tuple[ArmTrial, ...]
    """Those that count, in the order of their start."""

    def rate(self, measure: str) -> Cell:
        """Return one of the two rates."""
        return tally_runs(_list_runs(measure, self.trials))


def find_experiments(store: Store) -> list[str]:
    """Return the names of all experiments, that with the newest trial first."""
    rows = store.query(
        "SELECT spec->'trial'->>'experiment' AS name, max(created) AS newest FROM orchestrator_runs"
        " WHERE kind = 'trial' GROUP BY spec->'trial'->>'experiment' ORDER BY 2 DESC, 1"
    )
    return [str(row["name"]) for row in rows if row["name"]]


def report_experiment(store: Store, name: str) -> DatasetReport:
    """Report one experiment."""
    dataset = Dataset(store, Selection(experiment=name, kind=RunKind.TRIAL))
    plan, arms = read_arms(dataset, name)
    outcomes = [replace(one.outcome, setting=arm.name) for arm in arms for one in arm.trials]
    looks = _tabulate_looks(plan, arms)
    tables = (
        _tabulate_arms(plan, arms),
        _tabulate_differences(plan, arms),
        tabulate_by_setting(outcomes, dataset),
        looks,
    )
    notes = (*_describe_progress(plan, arms), *_describe_power(plan, arms), *_describe_looks(plan, looks))
    report = DatasetReport(
        "experiment", f"Experiment {name}", len(outcomes), tables, notes, kind=RunKind.TRIAL
    )
    return show_queries(report, dataset)


def tabulate_experiments(dataset: Dataset) -> ReportTable | None:
    """Tabulate the arms of all experiments among the selected runs; None if there are none."""
    names = dict.fromkeys(str(row["experiment"]) for row in dataset.ask("trials"))
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        plan, arms = read_arms(dataset, name)
        gains = [None, *(_compare(plan, arms[0], arm, "passed") for arm in arms[1:])]
        rows += [(name, *_make_row(plan, arm), gain) for arm, gain in zip(arms, gains, strict=True)]
    return make_table("experiments", rows) if rows else None


def read_arms(dataset: Dataset, name: str) -> tuple[ExperimentPlan, list[TrialArm]]:
    """Return what was planned, and the arms in their order."""
    rows = [row for row in dataset.ask("trials") if row["experiment"] == name]
    settings = {run["run_id"]: name_setting({**run, "arm": ""}) for run in dataset.ask("runs")}
    details = dataset.compute(RunDetails.read)
    measured = {run["run_id"]: run for run in dataset.compute(measure_runs)}
    groups: dict[tuple[int, str], Rows] = defaultdict(list)
    for row in rows:
        groups[row["place"] or 0, row["arm"] or settings[row["run_id"]]].append(row)
    arms = []
    for (_, label), group in sorted(groups.items()):
        trials = []
        for row in group:
            run = measured.get(row["run_id"])
            if run is not None:
                first = tuple(details.first.get(row["run_id"], {}).values())
                values = {measure: run[measure] for measure in _MEASURES}
                trials.append(ArmTrial(make_outcome(run, details), first, values))
        over = sum(row["state"] in _OVER for row in group)
        arms.append(TrialArm(label, len(group), over, tuple(trials)))
    newest = rows[-1] if rows else {}
    parts = (int(newest.get(part) or 0) for part in ("arms", "prompts", "trials", "looks"))
    return ExperimentPlan(*parts), arms


def _make_row(plan: ExperimentPlan, arm: TrialArm) -> tuple[Cell, ...]:
    means = (mean(_list_values(measure, arm.trials)) for measure in _MEASURES)
    planned = plan.prompts * plan.trials or None
    return arm.name, arm.over, planned, *(arm.rate(measure) for measure in RATES), *means


def _tabulate_arms(plan: ExperimentPlan, arms: Sequence[TrialArm]) -> ReportTable:
    return make_table("arms", (_make_row(plan, arm) for arm in arms))


def _tabulate_differences(plan: ExperimentPlan, arms: Sequence[TrialArm]) -> ReportTable:
    rows: list[tuple[Cell, ...]] = []
    for arm in arms[1:]:
        for measure in (*RATES, *_MEASURES):
            found = _compare(plan, arms[0], arm, measure)
            beyond = None
            if measure in RATES:
                beyond = describe_beyond(_compare_rates(plan, arms[0], arm, measure))
            rows.append((arm.name, measure, found, _conclude(found, measure), beyond))
    shown = f"{100 * plan.design.level:.1f}".rstrip("0").rstrip(".")
    return make_table("against_first", rows, first=arms[0].name if arms else "the first arm", shown=shown)


def _compare(
    plan: ExperimentPlan, first: TrialArm, arm: TrialArm, measure: str, most: int | None = None
) -> Difference | None:
    """Return the difference to the first arm, by the same number of trials of every prompt."""
    if measure in RATES:
        found = _compare_rates(plan, first, arm, measure, most)
        return found.here if found else None
    ours, theirs = balance(_list_runs("passed", arm.trials), _list_runs("passed", first.trials), most)
    numbers = [_list_values(measure, arm.trials, ours), _list_values(measure, first.trials, theirs)]
    if min(map(len, numbers)) < FEWEST_RUNS:
        return None
    difference = welch(numbers[0], numbers[1], plan.design.level)
    return None if difference is None else replace(difference, unit=measure)


def _compare_rates(
    plan: ExperimentPlan, first: TrialArm, arm: TrialArm, measure: str, most: int | None = None
) -> RateComparison | None:
    ours, theirs = balance(_list_runs(measure, arm.trials), _list_runs(measure, first.trials), most)
    return compare_runs(ours, theirs, plan.design.level)


def _list_runs(measure: str, trials: Sequence[ArmTrial]) -> list[RunCases]:
    return [
        RunCases(
            one.outcome.run,
            one.outcome.source,
            (one.outcome.passed,) if measure == "passed" else one.first,
        )
        for one in trials
    ]


def _list_values(
    measure: str, trials: Sequence[ArmTrial], runs: Sequence[RunCases] | None = None
) -> list[float]:
    """Return what the trials took, as far as it is known; of these runs, or of all."""
    wanted = {one.outcome.run for one in trials} if runs is None else {run.run for run in runs}
    found = (one.values[measure] for one in trials if one.outcome.run in wanted)
    return [float(value) for value in found if value is not None]


def _conclude(found: Difference | None, measure: str) -> str:
    words = {"passed": "passes", "passed_first": "passes at first", "cost_usd": "costs", "seconds": "takes"}
    often = " often" if measure in RATES else ""
    return conclude(found, f"{words[measure]} more{often}", f"{words[measure]} less{often}")


def _tabulate_looks(plan: ExperimentPlan, arms: Sequence[TrialArm]) -> ReportTable:
    """Tabulate the planned looks: what the first so many trials of every arm and prompt show."""
    rows: list[tuple[Cell, ...]] = []
    for look in range(1, plan.looks + 1 if plan.looks > 1 else 0):
        each = math.ceil(plan.trials * look / plan.looks)
        rows.append((look, each * plan.prompts, *_look(plan, arms, each)))
    return make_table("looks", rows)


def _look(plan: ExperimentPlan, arms: Sequence[TrialArm], each: int) -> tuple[str, str]:
    counts = [Counter(one.outcome.source for one in arm.trials) for arm in arms]
    sources = {source for count in counts for source in count}
    enough = len(arms) == plan.arms and len(sources) == plan.prompts
    if not enough or min(count[source] for count in counts for source in sources) < each:
        return "not reached", ""
    differences = [(arm.name, _compare(plan, arms[0], arm, "passed", each)) for arm in arms[1:]]
    found = [
        f"{name} {_conclude(one, 'passed')} than {arms[0].name}: {format_cell(one)}"
        for name, one in differences
        if one is not None and one.is_significant
    ]
    return "reached", "; ".join(found) or NO_DIFFERENCE


def _describe_progress(plan: ExperimentPlan, arms: Sequence[TrialArm]) -> Iterator[str]:
    over = sum(arm.over for arm in arms)
    going = sum(arm.started for arm in arms) - over
    more = f", {going} more have begun" if going else ""
    if plan.planned:
        yield f"{over} of {plan.planned} trials are over{more}."
    else:
        yield f"{over} trials are over{more}. How many were planned is not recorded."


def _describe_power(plan: ExperimentPlan, arms: Sequence[TrialArm]) -> Iterator[str]:
    """Say what the planned number of trials can show, as `segue experiment plan` does."""
    if plan.planned == 0 or plan.arms < 2:
        return
    runs = plan.trials * plan.prompts
    rate = tally_runs(run for arm in arms for run in _list_runs("passed", arm.trials))
    known = rate.value if rate.value is not None and rate.interval is not None else None
    smallest = find_smallest_difference(runs, _UNKNOWN if known is None else known, plan.design.level)
    basis = (
        "at a pass rate of 50 %" if known is None else f"at the pass rate so far, {format_percent(known)} %"
    )
    if smallest is None:
        yield f"Power: with {runs} trials of each arm no difference is likely to be found, {basis}."
    else:
        yield (
            f"Power: with {runs} trials of each arm a true difference of {100 * smallest:.0f} points to the"
            f" first arm is found in {format_percent(POWER)} % of such experiments, {basis}."
        )


def _describe_looks(plan: ExperimentPlan, looks: ReportTable) -> Iterator[str]:
    """Say whether the experiment may be stopped."""
    if not plan.planned:
        return
    if not looks.rows:
        yield (
            "Stopping: no looks were planned, so decide when all trials are over; stopping at the first"
            " significant difference finds one by chance too often."
        )
        return
    reached = [row for row in looks.rows if row[2] == "reached"]
    found = [row for row in reached if row[3] != NO_DIFFERENCE]
    if found:
        yield f"Stopping: it may be stopped. Look {found[0][0]} of {plan.looks}: {found[0][3]}."
    else:
        yield (
            f"Stopping: {len(reached)} of {plan.looks} planned looks are reached, none shows a difference"
            " that allows to stop early."
        )
