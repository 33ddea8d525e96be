"""Rates, means and differences, each with its confidence interval; the cases of one run count as alike."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from statistics import fmean
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from segue.features.dataset.reports.distributions import exact_interval, t_quantile
from segue.features.dataset.reports.posterior import Clusters, interval

CONFIDENCE = 0.95

FEW_RUNS = 5
"""With fewer runs only very large differences show, and intervals are made a little wider."""

FEWEST_RUNS = 3
"""With fewer runs no interval is given: what they say about other runs is unknown."""

FEWEST_PROMPTS = 8
"""With fewer prompts nothing is said about others like them: what they have in common is unknown."""

_FEW_CLUSTERS = 12
"""The same where runs have several cases, whose correlation has to be estimated too."""

_NARROWER = 0.75
"""The factor for the tails then: without it, coverage falls below 92 % in some simulations."""

_WIDER = 1.6
"""The factor for the tails of exact intervals: 92 % for 95 %. Rates of one case per prompt are never known
better than these say: other intervals keep their promise on average only, not at every rate."""

NO_DIFFERENCE = "no significant difference"
TOO_FEW = "too few runs"

K = TypeVar("K", bound=Hashable)


class Proportion(Struct, frozen=True, dict=True):
    """How often something happened in the cases of several runs; no value without cases."""

    runs: Clusters
    """Hits and cases of every run, sorted; of every prompt or task, where that is the unit."""
    unit: str = "run"
    """`prompt` or `task` where the interval speaks of others like these."""

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
        """The 95 % interval for a case of a new run, or prompt; None for fewer than three."""
        return self.limits() if len(self.runs) >= FEWEST_RUNS else None

    def limits(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Return the interval for a case of a new run, however little is known; 0 to 1 without cases."""
        few = FEW_RUNS if self.n == len(self.runs) else _FEW_CLUSTERS
        tails = (1 - confidence) * (_NARROWER if len(self.runs) < few else 1)
        low, high = interval(self.runs, self.hits, self.n, 1 - tails)
        if self.unit == "prompt" and self.n == len(self.runs):
            least = exact_interval(self.hits, self.n, 1 - (1 - confidence) * _WIDER)
            return min(low, least[0]), max(high, least[1])
        return low, high

    def to_json(self) -> dict[str, Any]:
        """Return what programs read."""
        low, high = self.interval or (None, None)
        return {
            "hits": self.hits,
            "n": self.n,
            f"{self.unit}s": len(self.runs),
            "rate": _round(self.value),
            "low": _round(low),
            "high": _round(high),
            f"mean_of_{self.unit}s": _round(
                fmean(hits / cases for hits, cases in self.runs) if self.runs else None
            ),
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


class RunCases(Struct, frozen=True):
    """The cases of one run, and the prompt (or plan) that it worked on."""

    run: str
    source: str
    cases: tuple[bool, ...]


class RateComparison(Struct, frozen=True):
    """How two settings differ in a rate: on their prompts, and on prompts like these."""

    here: Difference
    """For new runs of the same prompts; conclusions rest on it."""
    prompts: int
    beyond: Difference | None
    """For runs of other prompts of the same kind; None: too few prompts to tell."""


def compare_runs(
    one: Sequence[RunCases], other: Sequence[RunCases], confidence: float = CONFIDENCE
) -> RateComparison | None:
    """Compare two settings by equally many runs of each prompt that both worked on; None: too few runs.

    The difference for these prompts is
    that of separate runs (MOVER); differences between prompts, which both settings share, make it only safer.
    That for prompts like these rests on the differences by prompt, and is never narrower.
    """
    ours, theirs = balance(one, other)
    here = subtract(tally_runs(ours), tally_runs(theirs), confidence)
    if here is None:
        return None
    gains = _list_gains(ours, theirs)
    if len(gains) < FEWEST_PROMPTS:
        return RateComparison(here, len(gains), None)
    middle = fmean(gains)
    half = t_quantile((1 + confidence) / 2, len(gains) - 1) * math.sqrt(variance(gains, middle) / len(gains))
    low, high = min(middle - half, here.low), max(middle + half, here.high)
    return RateComparison(here, len(gains), Difference(here.value, max(-1.0, low), min(1.0, high)))


def balance(one: Sequence[RunCases], other: Sequence[RunCases]) -> tuple[list[RunCases], list[RunCases]]:
    """Return the first runs of both sides, equally many of each prompt."""
    counts = [Counter(run.source for run in side) for side in (one, other)]
    fewest = {source: min(counts[0][source], counts[1][source]) for source in counts[0]}
    return _take(one, fewest), _take(other, fewest)


def _take(runs: Sequence[RunCases], most: Mapping[str, int]) -> list[RunCases]:
    taken: Counter[str] = Counter()
    found = []
    for run in runs:
        if taken[run.source] < most.get(run.source, 0):
            taken[run.source] += 1
            found.append(run)
    return found


def tally_runs(runs: Iterable[RunCases]) -> Proportion:
    """Count the cases of some runs."""
    return tally((run.run, case) for run in runs for case in run.cases)


def generalize(cases: Iterable[tuple[str, bool]], sources: Mapping[str, str]) -> Proportion:
    """Count pairs of a run and whether it happened, by prompt where there are enough prompts.

    Then the interval is one for prompts like these; with fewer prompts it is one for new runs of the same.
    """
    found = list(cases)
    prompts = {sources.get(run, run) for run, _ in found}
    if len(prompts) < FEWEST_PROMPTS:
        return tally(found)
    return replace(tally((sources.get(run, run), happened) for run, happened in found), unit="prompt")


def _list_gains(one: Sequence[RunCases], other: Sequence[RunCases]) -> list[float]:
    """Return the difference on each prompt."""
    sides: list[dict[str, list[bool]]] = [defaultdict(list), defaultdict(list)]
    for side, runs in zip(sides, (one, other), strict=True):
        for run in runs:
            side[run.source] += run.cases
    shared = [source for source, cases in sides[0].items() if cases and sides[1].get(source)]
    return [fmean(sides[0][source]) - fmean(sides[1][source]) for source in shared]


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


def _round(value: float | None) -> float | None:
    """Round, so that the order in which a database adds up numbers does not show."""
    return None if value is None else round(value, 6)
