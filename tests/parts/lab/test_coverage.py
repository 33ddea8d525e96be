"""Intervals contain the truth as often as they say, also when the cases of a run are alike."""

from __future__ import annotations

from functools import cache

import pytest

from bench.coverage import (
    FORECASTS,
    POWERS,
    Trial,
    difference_cells,
    draw_cases,
    forecast_cells,
    give_up_cell,
    make_source,
    measure,
    power_cell,
    prompt_cells,
    rate_cells,
)

HARDEST = (
    *("beta, 3 runs, correlation 0.6, rate 0.5", "beta, 10 runs, correlation 0.2, rate 0.05"),
    *("logit-normal, 10 runs, correlation 0.6, rate 0.2", "5 runs each, correlation 0.6, 0.8 − 0.5"),
    *("10 runs each, correlation 0.6, 0.5 − 0.5", "rate, 8 prompts, 3 runs each, centre 0.0"),
    "difference, 8 prompts, 3 runs each, centre 1.5, shift 1.0",
)


@cache
def cells() -> dict[str, Trial]:
    return {**dict(rate_cells()), **dict(difference_cells()), **dict(prompt_cells())}


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


@pytest.mark.thorough
@pytest.mark.parametrize("cell", POWERS, ids=str)
def test_planned_power_is_reached(cell: tuple[tuple[int, int], tuple[float, float], float]) -> None:
    planned, reached = power_cell(*cell, 1000)
    assert abs(planned - reached) <= 0.03 + 0.02, "three points, and what a thousand rounds cannot tell"


def test_who_gives_up_early_does_not_look_better() -> None:
    assert give_up_cell(60) <= 0.05
