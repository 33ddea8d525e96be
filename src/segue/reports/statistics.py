"""Proportions, means and differences, each with its confidence interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, variance
from typing import Any

from msgspec import Struct

from segue.reports.t_distribution import t_quantile

CONFIDENCE = 0.95


class Proportion(Struct, frozen=True):
    """How often something happened, with its Wilson interval; no value without trials."""

    hits: int
    n: int

    @property
    def value(self) -> float | None:
        """The observed share."""
        return self.hits / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the true share."""
        return wilson(self.hits, self.n)

    def to_json(self) -> dict[str, Any]:
        """Return what programs read."""
        low, high = self.interval
        return {
            "hits": self.hits,
            "n": self.n,
            "rate": _round(self.value),
            "low": _round(low),
            "high": _round(high),
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


def wilson(hits: int, n: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the Wilson score interval of a share; 0 to 1 without trials."""
    if n == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, square = hits / n, z * z
    middle = (share + square / (2 * n)) / (1 + square / n)
    half = z * math.sqrt(share * (1 - share) / n + square / (4 * n * n)) / (1 + square / n)
    low = 0.0 if hits == 0 else max(0.0, middle - half)
    return low, 1.0 if hits == n else min(1.0, middle + half)


def newcombe(one: Proportion, other: Proportion, confidence: float = CONFIDENCE) -> Difference | None:
    """Return the difference of two shares (Newcombe's hybrid score interval); None without trials."""
    if one.value is None or other.value is None:
        return None
    difference = one.value - other.value
    low_one, high_one = wilson(one.hits, one.n, confidence)
    low_other, high_other = wilson(other.hits, other.n, confidence)
    below = math.hypot(one.value - low_one, high_other - other.value)
    above = math.hypot(high_one - one.value, other.value - low_other)
    return Difference(difference, max(-1.0, difference - below), min(1.0, difference + above))


def mean(values: Sequence[float]) -> Mean:
    """Return the mean of values that cannot be negative, with its t-interval."""
    if len(values) < 2:
        return Mean(len(values), values[0] if values else None)
    average = fmean(values)
    error = math.sqrt(variance(values, average) / len(values))
    half = t_quantile((1 + CONFIDENCE) / 2, len(values) - 1) * error
    return Mean(len(values), average, max(0.0, average - half), average + half)


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
