"""Reports an experiment: how far it is, what its arms show and could show, and whether it may be stopped."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.run import RunKind, RunState
from segue.parts.lab.reports.report import (
    Cell,
    DatasetReport,
    ReportTable,
    format_cell,
    format_percent,
    make_table,
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
    FEWEST_RUNS,
    NO_DIFFERENCE,
    Difference,
    conclude,
    mean,
    single_cases,
    subtract,
    tally,
    welch,
)
from segue.reports.timeline import Rows

if TYPE_CHECKING:
    from segue.store.store import Store


POWER = 0.8
"""How often an experiment should find a difference that is there."""

_MOST = 300


class Design(Struct, frozen=True):
    """What is compared: arms on prompts, so many trials of each."""

    arms: int
    prompts: int
    trials: int

    @property
    def comparisons(self) -> int:
        """How many rates the report compares: each pair on each prompt and on all of them, two rates each."""
        places = self.prompts + (self.prompts > 1)
        return max(1, 2 * places * math.comb(self.arms, 2))

    @property
    def level(self) -> float:
        """The confidence of each comparison, so that all of them together have 95 %."""
        return 1 - (1 - CONFIDENCE) / self.comparisons


def find_power(runs: int, one: float, other: float, level: float) -> float:
    """Return how often so many runs of each arm show that these pass rates differ; exact, by all outcomes."""
    high, low = max(one, other), min(one, other)
    most = _find_thresholds(runs, level)
    ours, theirs = _list_chances(runs, high), _list_chances(runs, low)
    below = [0.0, *accumulate(theirs)]
    return sum(chance * below[fewer] for chance, fewer in zip(ours, most, strict=True))


def find_smallest_difference(runs: int, rate: float, level: float) -> float | None:
    """Return the smallest difference from a rate that is found in 80 % of experiments; None if none is.

    Beyond 300 runs of each arm it is scaled by the square root of their number.
    """
    if runs > _MOST:
        found = find_smallest_difference(_MOST, rate, level)
        return None if found is None else found * math.sqrt(_MOST / runs)
    side = -1 if rate >= 0.5 else 1
    steps = range(1, round((rate if side < 0 else 1 - rate) * 100) + 1)
    enough = (
        step / 100 for step in steps if find_power(runs, rate, rate + side * step / 100, level) >= POWER
    )
    return next(enough, None)


@lru_cache(maxsize=16)
def _find_thresholds(runs: int, level: float) -> tuple[int, ...]:
    """Return, for each number of passes of one arm, how many numbers of the other are surely lower."""
    if runs < FEWEST_RUNS:
        return (0,) * (runs + 1)
    found: list[int] = []
    fewer = 0
    for passes in range(runs + 1):
        while fewer < passes and _is_higher(runs, passes, fewer, level):
            fewer += 1
        found.append(fewer)
    return tuple(found)


def _is_higher(runs: int, one: int, other: int, level: float) -> bool:
    difference = subtract(single_cases(one, runs), single_cases(other, runs), level)
    return difference is not None and difference.low > 0


def _list_chances(runs: int, rate: float) -> Sequence[float]:
    """Return the chance of each number of passes."""
    rate = min(max(rate, 0.0), 1.0)
    return [
        math.comb(runs, passes) * rate**passes * (1 - rate) ** (runs - passes) for passes in range(runs + 1)
    ]


_OVER = (RunState.DONE, RunState.NEEDS_HUMAN)
"""States in which a trial is over, as `segue experiment` counts."""

_RATES = ("passed", "passed_first")
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
    def level(self) -> float:
        """The confidence of each comparison with the first arm: all of them, at all looks, have 95 %."""
        comparisons = max(1, self.arms - 1) * len(_RATES) * max(1, self.looks)
        return 1 - (1 - CONFIDENCE) / comparisons


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
        return tally(_list_cases(measure, self.trials))


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
        replace(_tabulate_arms(plan, arms), sql=dataset.show_sql("by_setting")),
        _tabulate_differences(plan, arms),
        tabulate_by_setting(outcomes, dataset),
        looks,
    )
    notes = (*_describe_progress(plan, arms), *_describe_power(plan, arms), *_describe_looks(plan, looks))
    return DatasetReport("experiment", f"Experiment {name}", len(outcomes), tables, notes, kind=RunKind.TRIAL)


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
    return arm.name, arm.over, planned, *(arm.rate(measure) for measure in _RATES), *means


def _tabulate_arms(plan: ExperimentPlan, arms: Sequence[TrialArm]) -> ReportTable:
    return make_table("arms", (_make_row(plan, arm) for arm in arms))


def _tabulate_differences(plan: ExperimentPlan, arms: Sequence[TrialArm]) -> ReportTable:
    rows: list[tuple[Cell, ...]] = []
    for arm in arms[1:]:
        for measure in (*_RATES, *_MEASURES):
            found = _compare(plan, arms[0], arm, measure)
            rows.append((arm.name, measure, found, _conclude(found, measure)))
    shown = f"{100 * plan.level:.1f}".rstrip("0").rstrip(".")
    return make_table("against_first", rows, first=arms[0].name if arms else "the first arm", shown=shown)


def _compare(
    plan: ExperimentPlan, first: TrialArm, arm: TrialArm, measure: str, most: int | None = None
) -> Difference | None:
    """Return the difference to the first arm, by the same number of trials of every prompt."""
    ours, theirs = _balance(arm.trials, first.trials, most)
    if measure in _RATES:
        return subtract(tally(_list_cases(measure, ours)), tally(_list_cases(measure, theirs)), plan.level)
    numbers = [_list_values(measure, side) for side in (ours, theirs)]
    if min(map(len, numbers)) < FEWEST_RUNS:
        return None
    found = welch(numbers[0], numbers[1], plan.level)
    return None if found is None else replace(found, unit=measure)


def _list_cases(measure: str, trials: Sequence[ArmTrial]) -> Iterator[tuple[str, bool]]:
    for one in trials:
        happened = (one.outcome.passed,) if measure == "passed" else one.first
        yield from ((one.outcome.run, case) for case in happened)


def _list_values(measure: str, trials: Sequence[ArmTrial]) -> list[float]:
    """Return what the trials took, as far as it is known."""
    return [float(value) for one in trials for value in [one.values[measure]] if value is not None]


def _balance(
    one: Sequence[ArmTrial], other: Sequence[ArmTrial], most: int | None
) -> tuple[list[ArmTrial], list[ArmTrial]]:
    """Return the first trials of both arms, equally many of each prompt."""
    counts = [Counter(trial.outcome.source for trial in side) for side in (one, other)]
    fewest = {source: min(counts[0][source], counts[1][source], most or 10**9) for source in counts[0]}
    return _take(one, fewest), _take(other, fewest)


def _take(trials: Sequence[ArmTrial], most: Mapping[str, int]) -> list[ArmTrial]:
    taken: Counter[str] = Counter()
    found = []
    for trial in trials:
        source = trial.outcome.source
        if taken[source] < most.get(source, 0):
            taken[source] += 1
            found.append(trial)
    return found


def _conclude(found: Difference | None, measure: str) -> str:
    words = {"passed": "passes", "passed_first": "passes at first", "cost_usd": "costs", "seconds": "takes"}
    often = " often" if measure in _RATES else ""
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
    rate = tally(case for arm in arms for case in _list_cases("passed", arm.trials))
    known = rate.value if rate.value is not None and rate.interval is not None else None
    smallest = find_smallest_difference(runs, _UNKNOWN if known is None else known, plan.level)
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
