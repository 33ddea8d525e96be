"""Rates, means and differences, each with the interval that says how much it can be trusted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, variance
from typing import Any

from segue.reports.student import t_quantile

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Rate:
    """How often something happened, with its Wilson interval; no value when nothing was tried."""

    hits: int
    n: int

    @property
    def value(self) -> float | None:
        """The share."""
        return self.hits / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float]:
        """Where the true share lies, at 95 %."""
        return wilson(self.hits, self.n)

    def as_json(self) -> dict[str, Any]:
        """What programs get to see."""
        low, high = self.interval
        return {
            "hits": self.hits,
            "n": self.n,
            "rate": _short(self.value),
            "low": _short(low),
            "high": _short(high),
        }


@dataclass(frozen=True, slots=True)
class Mean:
    """An average with its t-interval; no interval for fewer than two values."""

    n: int
    value: float | None
    low: float | None = None
    high: float | None = None

    def as_json(self) -> dict[str, Any]:
        """What programs get to see."""
        return {"n": self.n, "mean": _short(self.value), "low": _short(self.low), "high": _short(self.high)}


@dataclass(frozen=True, slots=True)
class Difference:
    """How much more one is than another, with its interval."""

    value: float
    low: float
    high: float
    unit: str = "points"
    """`points` for a difference of shares, otherwise what was averaged."""

    @property
    def shown(self) -> bool:
        """Whether the data show a difference at all: noise alone would reach zero."""
        return self.low > 0 or self.high < 0

    def as_json(self) -> dict[str, Any]:
        """What programs get to see."""
        numbers = {"value": _short(self.value), "low": _short(self.low), "high": _short(self.high)}
        return {**numbers, "shown": self.shown}


def wilson(hits: int, n: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Wilson's score interval of a share; everything is possible when nothing was tried."""
    if n == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, square = hits / n, z * z
    middle = (share + square / (2 * n)) / (1 + square / n)
    half = z * math.sqrt(share * (1 - share) / n + square / (4 * n * n)) / (1 + square / n)
    low = 0.0 if hits == 0 else max(0.0, middle - half)
    return low, 1.0 if hits == n else min(1.0, middle + half)


def newcombe(one: Rate, other: Rate, confidence: float = CONFIDENCE) -> Difference | None:
    """The difference of two shares (Newcombe's hybrid score interval); None when one was never tried."""
    if one.value is None or other.value is None:
        return None
    difference = one.value - other.value
    low_one, high_one = wilson(one.hits, one.n, confidence)
    low_other, high_other = wilson(other.hits, other.n, confidence)
    below = math.hypot(one.value - low_one, high_other - other.value)
    above = math.hypot(high_one - one.value, other.value - low_other)
    return Difference(difference, max(-1.0, difference - below), min(1.0, difference + above))


def mean(values: Sequence[float], confidence: float = CONFIDENCE) -> Mean:
    """The average of quantities that cannot be negative, with its t-interval."""
    if len(values) < 2:
        return Mean(len(values), values[0] if values else None)
    average = fmean(values)
    error = math.sqrt(variance(values, average) / len(values))
    half = t_quantile((1 + confidence) / 2, len(values) - 1) * error
    return Mean(len(values), average, max(0.0, average - half), average + half)


def welch(one: Sequence[float], other: Sequence[float], confidence: float = CONFIDENCE) -> Difference | None:
    """The difference of two averages (Welch); None when one has fewer than two values."""
    if min(len(one), len(other)) < 2:
        return None
    difference = fmean(one) - fmean(other)
    parts = variance(one) / len(one), variance(other) / len(other)
    total = sum(parts)
    if total == 0:  # nothing varies: there is nothing to judge noise by
        return Difference(difference, min(difference, 0.0), max(difference, 0.0))
    freedom = total**2 / sum(
        part**2 / (len(values) - 1) for part, values in zip(parts, (one, other), strict=True)
    )
    half = t_quantile((1 + confidence) / 2, freedom) * math.sqrt(total)
    return Difference(difference, difference - half, difference + half)


def _short(value: float | None) -> float | None:
    """Rounded, so that the order in which a database adds numbers up cannot be seen."""
    return None if value is None else round(value, 6)
