"""How often an experiment finds a difference that is there, with the test that its report makes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

from msgspec import Struct

from segue.parts.lab.reports.statistics import CONFIDENCE, FEWEST_RUNS, single_cases, subtract

RATES = ("passed", "passed_first")
"""The rates that arms are compared by."""

POWER = 0.8
"""How often an experiment should find a difference that is there."""

_MOST = 300


class Design(Struct, frozen=True):
    """What is compared: arms on prompts, so many trials of each, looked at so often."""

    arms: int
    prompts: int
    trials: int
    looks: int = 1

    @property
    def runs(self) -> int:
        """How many trials each arm has, on all prompts together: on these, conclusions rest."""
        return self.prompts * self.trials

    @property
    def comparisons(self) -> int:
        """How many rates are compared: two of each pair of arms, at each look."""
        return max(1, math.comb(self.arms, 2) * len(RATES) * max(1, self.looks))

    @property
    def level(self) -> float:
        """The confidence of each comparison: all of them, at all looks, have 95 %."""
        return 1 - (1 - CONFIDENCE) / self.comparisons

    @property
    def level_of_each(self) -> float:
        """The confidence of comparisons on each prompt alone: of these, all together have 95 %."""
        return 1 - (1 - CONFIDENCE) / (self.comparisons * self.prompts)


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
