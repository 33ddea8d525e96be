"""Intervals agree with published values and keep what they promise."""

from __future__ import annotations

import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.reports.statistics import Proportion, mean, newcombe, welch, wilson
from segue.reports.t_distribution import t_cdf, t_quantile


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_as_newcombe_1998_prints_it(hits: int, n: int, low: float, high: float) -> None:
    assert wilson(hits, n) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(
    ("one", "other", "low", "high"),
    [
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((10, 10), (0, 20), 0.6791, 1.0),
        ((5, 56), (0, 29), -0.0381, 0.1926),
    ],
)
def test_differences_as_newcombe_1998_prints_them(
    one: tuple[int, int], other: tuple[int, int], low: float, high: float
) -> None:
    found = newcombe(Proportion(*one), Proportion(*other))
    assert found is not None
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(
    ("probability", "freedom", "value"),
    [(0.975, 1, 12.7062), (0.975, 2, 4.3027), (0.975, 9, 2.2622), (0.95, 30, 1.6973), (0.995, 120, 2.6174)],
)
def test_quantiles_of_t_as_tables_print_them(probability: float, freedom: float, value: float) -> None:
    assert t_quantile(probability, freedom) == pytest.approx(value, abs=5e-5)


def test_a_mean_by_hand() -> None:
    found = mean([1.0, 2.0, 3.0, 4.0, 5.0])  # error √(2.5/5), t(0.975, 4) = 2.7764
    assert (found.n, found.value) == (5, 3.0)
    assert [found.low, found.high] == pytest.approx([1.0368, 4.9632], abs=1e-4)


def test_welch_by_hand() -> None:
    # error √(2.5/5 + 10/5) = 1.5811; 5.88 degrees of freedom, where t(0.975) is 2.459 between 2.571 and 2.447
    found = welch([1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 4.0, 6.0, 8.0, 10.0])
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((-3.0, -6.888, 0.888), abs=2e-3)
    assert not found.is_significant


def test_too_little_is_said_to_be_too_little() -> None:
    assert mean([]).value is None
    assert (mean([7.0]).value, mean([7.0]).low) == (7.0, None)
    assert welch([1.0], [2.0, 3.0]) is None
    assert newcombe(Proportion(0, 0), Proportion(1, 2)) is None
    assert Proportion(0, 0).to_json() == {"hits": 0, "n": 0, "rate": None, "low": 0.0, "high": 1.0}


def test_values_that_never_vary_show_no_difference() -> None:
    found = welch([1.0, 1.0], [2.0, 2.0])
    assert found is not None
    assert not found.is_significant


SHARES = st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(SHARES)
def test_an_interval_holds_its_share_and_mirrors(share: tuple[int, int]) -> None:
    hits, n = share
    low, high = wilson(hits, n)
    assert 0 <= low <= hits / n <= high <= 1
    assert wilson(n - hits, n) == pytest.approx((1 - high, 1 - low))
    wider = wilson(hits, n, 0.99)
    assert wider[0] <= low <= high <= wider[1]


@given(SHARES, SHARES)
def test_a_difference_turns_round_with_its_sides(one: tuple[int, int], other: tuple[int, int]) -> None:
    there, back = (
        newcombe(Proportion(*one), Proportion(*other)),
        newcombe(Proportion(*other), Proportion(*one)),
    )
    assert there is not None
    assert back is not None
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert there.low <= there.value <= there.high
    assert there.is_significant == back.is_significant


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=30))
def test_a_mean_lies_in_its_interval(values: list[float]) -> None:
    found = mean(values)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= fmean(values) * (1 + 1e-12)
    assert fmean(values) <= found.high * (1 + 1e-12)


@given(st.floats(0.001, 50), st.floats(1, 400))
def test_t_is_symmetric_and_its_quantile_turns_it_round(value: float, freedom: float) -> None:
    below = t_cdf(value, freedom)
    assert t_cdf(-value, freedom) == pytest.approx(1 - below)
    if below < 0.9999:
        assert t_quantile(below, freedom) == pytest.approx(value, rel=1e-5)


def test_intervals_cover_what_they_promise() -> None:
    """Of many small experiments with a known truth about 95 % hold it."""
    chance = random.Random(7)
    truth, rounds = 0.3, 2000
    shares = [sum(chance.random() < truth for _ in range(25)) for _ in range(rounds)]
    held = sum(low <= truth <= high for low, high in (wilson(hits, 25) for hits in shares))
    assert 0.92 <= held / rounds <= 0.98
    means = [mean([chance.gauss(10, 2) for _ in range(5)]) for _ in range(rounds)]
    held = sum((found.low or 0) <= 10 <= (found.high or 0) for found in means)
    assert 0.935 <= held / rounds <= 0.965
