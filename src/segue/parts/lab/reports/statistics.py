"""Rates, means and differences, each with its confidence interval; the cases of one run count as alike."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from functools import cache, cached_property
from statistics import NormalDist, fmean
from typing import Any, TypeVar

from msgspec import Struct

from segue.parts.lab.reports.posterior import Clusters, interval

CONFIDENCE = 0.95

FEW_RUNS = 5
"""With fewer runs only very large differences show, and intervals are made a little wider."""

FEWEST_RUNS = 3
"""With fewer runs no interval is given: what they say about other runs is unknown."""

_FEW_CLUSTERS = 12
"""The same where runs have several cases, whose correlation has to be estimated too."""

_NARROWER = 0.75
"""The factor for the tails then: without it, coverage falls below 92 % in some simulations."""

NO_DIFFERENCE = "no significant difference"
TOO_FEW = "too few runs"

K = TypeVar("K", bound=Hashable)


class Proportion(Struct, frozen=True, dict=True):
    """How often something happened in the cases of several runs; no value without cases."""

    runs: Clusters
    """Hits and cases of every run, sorted."""

    @cached_property
    def hits(self) -> int:
        """How often it happened."""
        return sum([hits for hits, _ in self.runs])

    @cached_property
    def n(self) -> int:
        """The number of cases."""
        return sum([cases for _, cases in self.runs])

    @property
    def value(self) -> float | None:
        """The observed share of all cases."""
        return self.hits / self.n if self.runs else None

    @cached_property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval for a case of a new run; None for fewer than three runs."""
        return self.limits() if len(self.runs) >= FEWEST_RUNS else None

    def limits(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Return the interval for a case of a new run, however little is known; 0 to 1 without cases."""
        few = FEW_RUNS if self.n == len(self.runs) else _FEW_CLUSTERS
        tails = (1 - confidence) * (_NARROWER if len(self.runs) < few else 1)
        return interval(self.runs, self.hits, self.n, 1 - tails)

    def to_json(self) -> dict[str, Any]:
        """Return what programs read."""
        low, high = self.interval or (None, None)
        return {
            "hits": self.hits,
            "n": self.n,
            "runs": len(self.runs),
            "rate": _round(self.value),
            "low": _round(low),
            "high": _round(high),
            "mean_of_runs": _round(fmean(hits / cases for hits, cases in self.runs) if self.runs else None),
        }


class Mean(Struct, frozen=True):
    """A mean with its t-interval; no interval for fewer than two values."""

    n: int
    value: float | None
    low: float | None = None
    high: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what programs read."""
        return {"n": self.n, "mean": _round(self.value), "low": _round(self.low), "high": _round(self.high)}


class Difference(Struct, frozen=True):
    """The difference of two values, with its interval."""

    value: float
    low: float
    high: float
    unit: str = "points"
    """`points` for a difference of shares, otherwise the measure."""

    @property
    def is_significant(self) -> bool:
        """True if the interval excludes zero."""
        return self.low > 0 or self.high < 0

    def to_json(self) -> dict[str, Any]:
        """Return what programs read."""
        numbers = {"value": _round(self.value), "low": _round(self.low), "high": _round(self.high)}
        return {**numbers, "shown": self.is_significant}


def conclude(found: Difference | None, more: str, less: str) -> str:
    """Say in words what a difference shows: `more` if it is above zero, `less` if it is below."""
    if found is None:
        return TOO_FEW
    if not found.is_significant:
        return NO_DIFFERENCE
    return more if found.value > 0 else less


def tally(cases: Iterable[tuple[Hashable, bool]]) -> Proportion:
    """Count how often something happened, by run: pairs of the run and whether it happened."""
    runs: dict[Hashable, list[bool]] = defaultdict(list)
    for run, happened in cases:
        runs[run].append(happened)
    return Proportion(tuple(sorted((sum(found), len(found)) for found in runs.values())))


def tally_groups(cases: Iterable[tuple[K, Hashable, bool]]) -> dict[K, Proportion]:
    """Count the same for every group: triples of the group, the run and whether it happened."""
    groups: dict[K, list[tuple[Hashable, bool]]] = defaultdict(list)
    for group, run, happened in cases:
        groups[group].append((run, happened))
    return {group: tally(found) for group, found in groups.items()}


def single_cases(hits: int, n: int) -> Proportion:
    """Return the rate of cases that each stand alone, as one case per run does."""
    return Proportion(((0, 1),) * (n - hits) + ((1, 1),) * hits)


def subtract(one: Proportion, other: Proportion, confidence: float = CONFIDENCE) -> Difference | None:
    """Return the difference of the rates of separate runs (MOVER); None if one has fewer than three runs."""
    if min(len(one.runs), len(other.runs)) < FEWEST_RUNS or one.value is None or other.value is None:
        return None
    difference = one.value - other.value
    low_one, high_one = one.limits(confidence)
    low_other, high_other = other.limits(confidence)
    below = math.hypot(one.value - low_one, high_other - other.value)
    above = math.hypot(high_one - one.value, other.value - low_other)
    return Difference(difference, max(-1.0, difference - below), min(1.0, difference + above))


class TaskCase(Struct, frozen=True):
    """Whether something happened in one task of one run."""

    run: str
    task: str
    happened: bool


def subtract_paired(
    one: Sequence[TaskCase], other: Sequence[TaskCase], confidence: float = CONFIDENCE
) -> Difference | None:
    """Return the difference of two rates on the same tasks, clustered by task and by run.

    None where that cannot be estimated: fewer than two shared tasks, fewer than two runs on a side, or a side
    in which nothing varies.
    """
    shared = {case.task for case in one} & {case.task for case in other}
    sides = [[case for case in cases if case.task in shared] for cases in (one, other)]
    runs = [len({case.run for case in cases}) for cases in sides]
    if len(shared) < 2 or min(runs) < 2:
        return None
    rates = [fmean(case.happened for case in cases) for cases in sides]
    if any(rate in (0.0, 1.0) for rate in rates):
        return None
    parts = [
        (case, sign * (case.happened - rate) / len(cases))
        for sign, rate, cases in zip((1, -1), rates, sides, strict=True)
        for case in cases
    ]
    fewest = min(runs)
    by_task = _add_squares((case.task, part) for case, part in parts) * len(shared) / (len(shared) - 1)
    by_run = _add_squares((case.run, part) for case, part in parts) * fewest / (fewest - 1)
    by_case = sum(part**2 for _, part in parts)
    error = math.sqrt(max(by_task, by_run, by_task + by_run - by_case))
    tails = (1 - confidence) * (_NARROWER if fewest < FEW_RUNS else 1)
    half = t_quantile(1 - tails / 2, min(len(shared) - 1, sum(runs) - 2)) * error
    difference = rates[0] - rates[1]
    return Difference(difference, max(-1.0, difference - half), min(1.0, difference + half))


def _add_squares(parts: Iterable[tuple[str, float]]) -> float:
    """Add up the parts of each group, and the squares of these sums."""
    sums: dict[str, float] = defaultdict(float)
    for group, part in parts:
        sums[group] += part
    return sum(value**2 for value in sums.values())


def mean(values: Sequence[float]) -> Mean:
    """Return the mean of values that cannot be negative, one per run, with its t-interval."""
    if len(values) < 2:
        return Mean(len(values), values[0] if values else None)
    average = fmean(values)
    error = math.sqrt(variance(values, average) / len(values))
    half = t_quantile((1 + CONFIDENCE) / 2, len(values) - 1) * error
    return Mean(len(values), average, max(0.0, average - half), average + half)


def variance(values: Sequence[float], average: float | None = None) -> float:
    """Return the variance of a sample; as that of the standard library, but without its fractions."""
    middle = fmean(values) if average is None else average
    return math.fsum([(value - middle) ** 2 for value in values]) / (len(values) - 1)


def welch(one: Sequence[float], other: Sequence[float], confidence: float = CONFIDENCE) -> Difference | None:
    """Return the difference of two means (Welch); None if one has fewer than two values."""
    if min(len(one), len(other)) < 2:
        return None
    difference = fmean(one) - fmean(other)
    parts = variance(one) / len(one), variance(other) / len(other)
    total = sum(parts)
    if total == 0:  # nothing varies, so noise cannot be estimated
        return Difference(difference, min(difference, 0.0), max(difference, 0.0))
    freedom = total**2 / sum(
        part**2 / (len(values) - 1) for part, values in zip(parts, (one, other), strict=True)
    )
    half = t_quantile((1 + confidence) / 2, freedom) * math.sqrt(total)
    return Difference(difference, difference - half, difference + half)


class Prediction(Struct, frozen=True):
    """What the next total will be: the middle, and an interval that contains it with some confidence."""

    n: int
    """The number of earlier totals."""
    middle: float
    low: float
    high: float
    confidence: float


FEWEST_TOTALS = 3
"""Below this number of earlier totals nothing can be said about the next one."""


def predict(totals: Sequence[float], confidence: float) -> Prediction | None:
    """Predict the next total from earlier ones, as lognormal; None if there are too few.

    Totals of whole runs only: adding up tasks as if they were independent makes intervals far too narrow.
    """
    logs = [math.log(total) for total in totals if total > 0]
    if len(logs) < FEWEST_TOTALS:
        return None
    middle = fmean(logs)
    error = math.sqrt(variance(logs, middle) * (1 + 1 / len(logs)))
    half = t_quantile((1 + confidence) / 2, len(logs) - 1) * error
    return Prediction(
        len(logs), math.exp(middle), math.exp(middle - half), math.exp(middle + half), confidence
    )


def _round(value: float | None) -> float | None:
    """Round, so that the order in which a database adds up numbers does not show."""
    return None if value is None else round(value, 6)


_ROUNDS = 300
_TINY = 1e-300
_MANY = 20


@cache
def t_quantile(probability: float, freedom: float) -> float:
    """Return the quantile of a probability between 0.5 and 1.

    Newton's method, with few degrees of freedom from the normal quantile, which is too low: there the
    distribution is concave, so every step stays below the quantile. With many from an expansion that is near.
    """
    value = normal = NormalDist().inv_cdf(probability)
    if freedom > _MANY:
        value += (normal**3 + normal) / (4 * freedom)
        value += (5 * normal**5 + 16 * normal**3 + 3 * normal) / (96 * freedom**2)
    for _ in range(_ROUNDS):
        step = (probability - t_cdf(value, freedom)) / _density(value, freedom)
        value += step
        if abs(step) <= 1e-12 * (1 + value):
            break
    return value


def _density(value: float, freedom: float) -> float:
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(freedom * math.pi) / 2
    return math.exp(scale - (freedom + 1) / 2 * math.log1p(value * value / freedom))


def t_cdf(value: float, freedom: float) -> float:
    """Return the cumulative distribution function at a value."""
    tail = regularized_beta(freedom / (freedom + value * value), freedom / 2, 0.5) / 2
    return 1 - tail if value >= 0 else tail


def regularized_beta(x: float, a: float, b: float) -> float:
    """Return the regularized incomplete beta function."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):  # the fraction converges quickly only on the other side
        return 1 - regularized_beta(1 - x, b, a)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(scale) / (a * _evaluate_fraction(x, a, b))


def _evaluate_fraction(x: float, a: float, b: float) -> float:
    """Evaluate its continued fraction (Lentz's algorithm)."""
    value, c, d = 1.0, 1.0, 0.0
    for n in range(1, _ROUNDS):
        m = n // 2
        if n % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / _avoid_zero(1 + term * d)
        c = _avoid_zero(1 + term / c)
        value *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return value


def _avoid_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
