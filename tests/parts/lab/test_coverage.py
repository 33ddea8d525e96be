"""Intervals contain the truth as often as they say, also when the cases of a run are alike."""

from __future__ import annotations

from functools import cache

import pytest

from bench.coverage import (
    FORECASTS,
    Trial,
    difference_cells,
    draw_cases,
    forecast_cells,
    make_source,
    measure,
    paired_cells,
    rate_cells,
)

HARDEST = (
    *("beta, 3 runs, correlation 0.6, rate 0.5", "beta, 10 runs, correlation 0.2, rate 0.05"),
    *("logit-normal, 10 runs, correlation 0.6, rate 0.2", "5 runs each, correlation 0.6, 0.8 − 0.5"),
    *("10 runs each, correlation 0.6, 0.5 − 0.5", "20 tasks, 5 runs each, effects 0.5/1.5, shift 0.0"),
    "8 tasks, 3 runs each, effects 0.5/1.5, shift 1.0",
)


@cache
def cells() -> dict[str, Trial]:
    return {**dict(rate_cells()), **dict(difference_cells()), **dict(paired_cells())}


@pytest.mark.thorough
@pytest.mark.parametrize("cell", HARDEST)
def test_the_hardest_cells_contain_the_truth(cell: str) -> None:
    """A hundred rounds with a fixed seed: enough to see an interval that counts cases as independent."""
    assert measure(cells()[cell], 100, cell) >= 0.88


def test_a_method_that_counts_cases_as_independent_would_be_caught() -> None:
    from segue.parts.lab.reports.statistics import single_cases

    source = make_source("beta", 0.5, 0.6)

    def independent(chance: object) -> bool:
        cases = [happened for _, happened in draw_cases(chance, source, 10)]  # type: ignore[arg-type]
        low, high = single_cases(sum(cases), len(cases)).limits()
        return low <= 0.5 <= high

    assert measure(independent, 100, "independent") < 0.7


def test_forecasts_contain_the_next_total_as_often_as_they_say() -> None:
    low, high = FORECASTS
    for name, trial in forecast_cells():
        assert low - 0.02 <= measure(trial, 400, name) <= high + 0.02, name
