"""Power before an experiment: exact, so simulated experiments agree with it."""

from __future__ import annotations

import random

import pytest

from segue.parts.lab.experiment.power import Design, find_power, find_smallest_difference
from segue.parts.lab.reports.statistics import single_cases, subtract


def test_power_agrees_with_simulated_experiments() -> None:
    chance, found = random.Random(3), 0
    for _ in range(1000):
        good, bad = (sum(chance.random() < rate for _ in range(12)) for rate in (0.9, 0.4))
        difference = subtract(single_cases(good, 12), single_cases(bad, 12))
        found += difference is not None and difference.is_significant
    assert find_power(12, 0.9, 0.4, 0.95) == pytest.approx(found / 1000, abs=0.05)


def test_what_is_equal_is_rarely_told_apart() -> None:
    assert all(find_power(runs, rate, rate, 0.95) <= 0.035 for runs in (5, 20, 60) for rate in (0.5, 0.9))


def test_more_runs_find_smaller_differences_and_more_comparisons_larger_ones_only() -> None:
    sizes = [find_smallest_difference(runs, 0.5, 0.95) for runs in (10, 20, 50, 500)]
    assert sizes == sorted((size for size in sizes if size is not None), reverse=True)
    assert find_smallest_difference(4, 0.5, 0.95) is None
    alone, many = find_smallest_difference(20, 0.5, 0.95), find_smallest_difference(20, 0.5, 0.997)
    assert alone is not None
    assert many is not None
    assert many > alone


def test_comparisons_are_counted_as_the_report_makes_them() -> None:
    assert Design(2, 1, 5).comparisons == 2  # one pair, two rates
    assert Design(3, 2, 5).comparisons == 6  # three pairs, two rates
    assert Design(3, 2, 5, looks=2).comparisons == 12
    assert Design(1, 1, 5).level == 0.95
