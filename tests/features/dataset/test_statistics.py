"""Intervals agree with published values and keep what they promise."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from segue.features.dataset.reports.distributions import regularized_beta, t_quantile
from segue.features.dataset.reports.posterior import Clusters, interval
from segue.features.dataset.reports.statistics import (
    Proportion,
    RunCases,
    compare_runs,
    generalize,
    mean,
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
