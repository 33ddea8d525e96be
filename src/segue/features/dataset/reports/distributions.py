"""The distributions that intervals rest on: beta, t, and the exact interval of a rate."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from statistics import NormalDist

_ROUNDS = 300
_HALVINGS = 40
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


@cache
def exact_interval(hits: int, n: int, confidence: float) -> tuple[float, float]:
    """Return the exact interval for a rate from single cases (Clopper–Pearson): it covers every rate."""
    tail = (1 - confidence) / 2
    low = _find_rate(lambda rate: regularized_beta(rate, hits, n - hits + 1) > tail) if hits else 0.0
    high = _find_rate(lambda rate: regularized_beta(rate, hits + 1, n - hits) > 1 - tail) if hits < n else 1.0
    return low, high


def _find_rate(is_above: Callable[[float], bool]) -> float:
    """Return the rate from which on a condition is met."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_above(middle) else (middle, high)
    return low
