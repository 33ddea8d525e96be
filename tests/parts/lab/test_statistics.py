"""Intervals agree with published values and keep what they promise."""

from __future__ import annotations

import math
import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from segue.parts.lab.reports.distributions import regularized_beta, t_cdf, t_quantile
from segue.parts.lab.reports.posterior import Clusters, interval
from segue.parts.lab.reports.statistics import (
    Proportion,
    RunCases,
    compare_runs,
    generalize,
    mean,
    predict,
    single_cases,
    subtract,
    tally,
    tally_groups,
    welch,
)


@pytest.mark.parametrize(
    ("runs", "low", "high"),
    [
        (((8, 10),), 15, 96),  # one run says little, however many cases it has
        (((0, 1),) * 2 + ((1, 1),) * 8, 50, 96),  # the same cases, but ten runs
        (((4, 5), (4, 5)), 31, 95),
        (((20, 20),) * 3, 66, 100),
        (((95, 100),) * 5, 92, 97),
    ],
)
def test_the_same_cases_say_less_in_fewer_runs(runs: Clusters, low: int, high: int) -> None:
    """Values that were computed with another implementation."""
    found = interval(runs, Proportion(runs).hits, Proportion(runs).n, 0.95)
    assert (100 * found[0], 100 * found[1]) == pytest.approx((low, high), abs=0.8)


def test_single_cases_have_the_jeffreys_interval() -> None:
    """Values as Brown, Cai and DasGupta print them: 0 of 20 differs, where the lower end is set to 0."""
    for (hits, n), wanted in {(81, 263): (0.2546, 0.3659), (15, 148): (0.0603, 0.1577)}.items():
        low, high = single_cases(hits, n).limits()
        beta = (
            regularized_beta(low, hits + 0.5, n - hits + 0.5),
            regularized_beta(high, hits + 0.5, n - hits + 0.5),
        )
        assert beta == pytest.approx((0.025, 0.975), abs=4e-3)
        assert (low, high) == pytest.approx(wanted, abs=3e-3)


def test_large_samples_are_not_rounded_to_the_grid() -> None:
    low, high = Proportion(((600, 1000),) * 40).limits()
    assert 0.594 < low < 0.6 < high < 0.606


def test_runs_that_differ_say_less_than_runs_that_agree() -> None:
    agree, differ = Proportion(((5, 10),) * 6).limits(), Proportion(((0, 10),) * 3 + ((10, 10),) * 3).limits()
    assert differ[1] - differ[0] > 2 * (agree[1] - agree[0])


def test_cases_are_counted_by_run() -> None:
    found = tally([("a", True), ("b", False), ("a", True), ("a", False)])
    assert found == Proportion(((0, 1), (2, 3)))
    assert (found.hits, found.n, found.value) == (2, 4, 0.5)
    assert found.to_json()["mean_of_runs"] == pytest.approx(1 / 3, abs=1e-6)
    grouped = tally_groups([("x", "a", True), ("y", "a", False), ("x", "b", True)])
    assert grouped == {"x": single_cases(2, 2), "y": single_cases(0, 1)}


def test_two_runs_have_no_interval() -> None:
    found, three = Proportion(((8, 10), (9, 10))), Proportion(((1, 10), (2, 10), (2, 10)))
    assert found.interval is None
    assert (found.to_json()["low"], found.to_json()["runs"]) == (None, 2)
    assert three.interval is not None
    assert subtract(found, three) is None


def runs(name: str, passed: dict[str, str]) -> list[RunCases]:
    """One run per letter, by prompt; `+` is one that passed."""
    return [
        RunCases(f"{name}-{source}-{number}", source, (sign == "+",))
        for source, signs in passed.items()
        for number, sign in enumerate(signs)
    ]


def test_settings_are_compared_by_equally_many_runs_of_what_both_worked_on() -> None:
    one = runs("a", {"x": "++++--", "y": "++", "only": "----"})
    other = runs("b", {"x": "+---", "y": "----"})
    found = compare_runs(one, other)
    assert found is not None
    assert found.here == subtract(single_cases(6, 6), single_cases(1, 6))
    assert (found.prompts, found.beyond) == (2, None)


def test_from_eight_prompts_on_a_difference_speaks_of_others_like_them() -> None:
    one = runs("a", {str(prompt): "++" if prompt < 6 else "--" for prompt in range(8)})
    other = runs("b", {str(prompt): "--" for prompt in range(8)})
    found = compare_runs(one, other)
    assert found is not None
    assert found.beyond is not None
    gains = [1.0] * 6 + [0.0] * 2
    half = t_quantile(0.975, 7) * (sum((gain - 0.75) ** 2 for gain in gains) / 7 / 8) ** 0.5
    assert found.beyond.low == pytest.approx(min(0.75 - half, found.here.low))
    assert found.beyond.high == pytest.approx(max(min(1.0, 0.75 + half), found.here.high))


def test_rates_are_counted_by_prompt_where_there_are_enough() -> None:
    cases = [(f"run-{number}", number % 2 == 0) for number in range(16)]
    few = generalize(cases, {run: run[-1] for run, _ in cases[:7]} | {run: "x" for run, _ in cases[7:]})
    assert (few.unit, len(few.runs)) == ("prompt", 8)
    same = generalize(cases, dict.fromkeys((run for run, _ in cases), "x"))
    assert (same.unit, len(same.runs), same.hits) == ("run", 16, 8)


def test_a_forecast_by_hand() -> None:
    found = predict([1.0, math.e, math.e**2], 0.8)  # logarithms 0, 1, 2; t(0.9, 2) = 1.8856
    assert found is not None
    assert found.n == 3
    assert found.middle == pytest.approx(math.e)
    assert math.log(found.high) == pytest.approx(1 + 1.8856 * (4 / 3) ** 0.5, abs=1e-4)
    assert math.log(found.low) == pytest.approx(1 - 1.8856 * (4 / 3) ** 0.5, abs=1e-4)


def test_two_totals_are_too_few_for_a_forecast() -> None:
    assert predict([1.0, 2.0], 0.8) is None
    assert predict([1.0, 2.0, 0.0], 0.8) is None


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
    assert subtract(Proportion(()), single_cases(1, 2)) is None
    nothing = Proportion(()).to_json()
    assert (nothing["n"], nothing["runs"], nothing["rate"], nothing["low"]) == (0, 0, None, None)


def test_values_that_never_vary_show_no_difference() -> None:
    found = welch([1.0, 1.0], [2.0, 2.0])
    assert found is not None
    assert not found.is_significant


RUNS = st.lists(
    st.integers(1, 30).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=3, max_size=12
).map(lambda runs: tuple(sorted(runs)))


def turned(runs: Clusters) -> Proportion:
    return Proportion(tuple(sorted((cases - hits, cases) for hits, cases in runs)))


@given(RUNS)
def test_an_interval_contains_its_share_and_mirrors(runs: Clusters) -> None:
    found = Proportion(runs)
    low, high = found.limits()
    assert found.value is not None
    assert 0 <= low <= found.value <= high <= 1
    assert turned(runs).limits() == pytest.approx((1 - high, 1 - low), abs=1e-9)
    wider = found.limits(0.99)
    assert wider[0] <= low <= high <= wider[1]


@given(RUNS, RUNS)
def test_a_difference_turns_round_with_its_sides(one: Clusters, other: Clusters) -> None:
    there, back = (
        subtract(Proportion(one), Proportion(other)),
        subtract(Proportion(other), Proportion(one)),
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


def test_means_cover_what_they_promise() -> None:
    """Of many small experiments with a known truth about 95 % contain it."""
    chance = random.Random(7)
    means = [mean([chance.gauss(10, 2) for _ in range(5)]) for _ in range(2000)]
    held = sum((found.low or 0) <= 10 <= (found.high or 0) for found in means)
    assert 0.935 <= held / 2000 <= 0.965


@pytest.mark.parametrize("prompts", [8, 10, 12, 20])
def test_one_case_per_prompt_is_covered_at_every_rate(prompts: int) -> None:
    """Computed, not simulated: with 12 prompts an interval that is right on average misses 8 % at 0.78."""
    found = [replace(single_cases(hits, prompts), unit="prompt").limits() for hits in range(prompts + 1)]
    for rate in (number / 100 for number in range(1, 100)):
        chances = (
            math.comb(prompts, hits) * rate**hits * (1 - rate) ** (prompts - hits)
            for hits, (low, high) in enumerate(found)
            if low <= rate <= high
        )
        assert sum(chances) >= 0.92
