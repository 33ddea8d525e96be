"""How often intervals contain the truth, where the truth is known: simulated runs whose cases are alike."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from statistics import NormalDist

from bench.table import Figure
from segue.parts.lab.experiment.power import Design, find_power
from segue.parts.lab.reports.statistics import (
    Difference,
    RunCases,
    compare_runs,
    generalize,
    predict,
    subtract,
    tally,
)

LEAST = 0.92
"""The share of 95 % intervals that must contain the truth, in every cell."""

POWER_WITHIN = 0.03
"""How far the power that is planned may be from what is reached."""

FALSE_CLAIMS = 0.05

FORECASTS = (0.75, 0.85)
"""The share of 80 % forecasts that must contain the next total."""

CORRELATIONS = (0.0, 0.2, 0.6)
MOST_CASES = 20
PLAN = 8
"""The number of tasks in a plan whose total is forecast."""

Trial = Callable[[random.Random], bool]
"""Makes up one dataset; returns whether the interval from it contains the truth."""


def figures(quick: bool) -> Iterator[Figure]:
    """Measure the coverage of every cell."""
    rounds = 100 if quick else 500
    for what, trial in rate_cells():
        yield _measure(f"rate: {what}", trial, rounds, (LEAST, 1.0), not quick)
    for what, trial in difference_cells():
        yield _measure(f"difference: {what}", trial, rounds, (LEAST, 1.0), not quick)
    for what, trial in prompt_cells():
        yield _measure(f"prompts like these: {what}", trial, rounds, (LEAST, 1.0), not quick)
    for design, rates, effect in POWERS:
        planned, reached = power_cell(design, rates, effect, 10 * rounds)
        arms = f"{rates[0]:.0%} against {rates[1]:.0%}"
        name = f"power: {design[0]}×{design[1]}, {arms}, prompts differ by {effect}"
        met = None if quick else abs(planned - reached) <= POWER_WITHIN
        yield Figure(name, f"{reached:.1%}", f"planned {planned:.1%}", "", "within 3 points", met)
    claims = give_up_cell(rounds)
    met = None if quick else claims <= FALSE_CLAIMS
    yield Figure("giving up early looks better", f"{claims:.1%}", f"{rounds} rounds", "", "≤ 5%", met)
    for what, trial in forecast_cells():
        yield _measure(f"forecast: {what}", trial, 10 * rounds, FORECASTS, not quick)


def measure(trial: Trial, rounds: int, seed: str) -> float:
    """Return the share of rounds in which the interval contained the truth."""
    chance = random.Random(seed)
    return sum(trial(chance) for _ in range(rounds)) / rounds


def _measure(what: str, trial: Trial, rounds: int, wanted: tuple[float, float], judge: bool) -> Figure:
    found = measure(trial, rounds, what)
    low, high = wanted
    target = f"≥ {low:.0%}" if high == 1 else f"{low:.0%}–{high:.0%}"
    met = low <= found <= high if judge else None
    return Figure(what, f"{found:.1%}", f"{rounds} rounds", "", target, met)


def rate_cells() -> Iterator[tuple[str, Trial]]:
    """Yield one rate from few or many runs; drawn from the model that is assumed, and from another one."""
    for model, runs, correlation, rate in product(
        ("beta", "logit-normal"), (3, 5, 10, 40), CORRELATIONS, (0.05, 0.2, 0.5)
    ):
        if model == "beta" or correlation:
            name = f"{model}, {runs} runs, correlation {correlation}, rate {rate}"
            yield name, _try_rate(make_source(model, rate, correlation), runs, rate)


def _try_rate(source: RunSource, runs: int, rate: float) -> Trial:
    def trial(chance: random.Random) -> bool:
        low, high = tally(draw_cases(chance, source, runs)).limits()
        return low <= rate <= high

    return trial


def difference_cells() -> Iterator[tuple[str, Trial]]:
    """Yield the difference of two settings, with separate runs."""
    rates = ((0.5, 0.5), (0.9, 0.9), (0.8, 0.5))
    for runs, correlation, (one, other) in product((3, 5, 10, 20), CORRELATIONS, rates):
        name = f"{runs} runs each, correlation {correlation}, {one} − {other}"
        yield name, _try_difference(runs, correlation, one, other)


def _try_difference(runs: int, correlation: float, one: float, other: float) -> Trial:
    sources = make_source("beta", one, correlation), make_source("beta", other, correlation)

    def trial(chance: random.Random) -> bool:
        ours, theirs = (tally(draw_cases(chance, source, runs)) for source in sources)
        found = subtract(ours, theirs)
        return _contains(found, one - other)

    return trial


PROMPT_EFFECT = 1.0
"""How much prompts differ: the standard deviation of their logits."""


def prompt_cells() -> Iterator[tuple[str, Trial]]:
    """Yield rates and differences for prompts like these, where prompts differ."""
    for prompts, runs, centre in product((8, 12, 20), (1, 3, 6), (0.0, 1.5)):
        name = f"{prompts} prompts, {runs} runs each, centre {centre}"
        yield f"rate, {name}", _try_prompts_rate(prompts, runs, centre)
        for shift in (0.0, 1.0):
            yield f"difference, {name}, shift {shift}", _try_prompts(prompts, runs, centre, shift)


def draw_runs(
    chance: random.Random, arm: str, effects: list[float], runs: int, centre: float
) -> list[RunCases]:
    """Make up the runs of one arm: so many of each prompt, of one case each."""
    return [
        RunCases(f"{arm}/{prompt}/{run}", str(prompt), (chance.random() < logistic(centre + effect),))
        for prompt, effect in enumerate(effects)
        for run in range(runs)
    ]


def _try_prompts_rate(prompts: int, runs: int, centre: float) -> Trial:
    truth = mean_rate(centre, PROMPT_EFFECT)

    def trial(chance: random.Random) -> bool:
        effects = [chance.gauss(0, PROMPT_EFFECT) for _ in range(prompts)]
        found = draw_runs(chance, "a", effects, runs, centre)
        sources = {one.run: one.source for one in found}
        low, high = generalize(((one.run, one.cases[0]) for one in found), sources).limits()
        return low <= truth <= high

    return trial


def _try_prompts(prompts: int, runs: int, centre: float, shift: float) -> Trial:
    truth = mean_rate(centre + shift, PROMPT_EFFECT) - mean_rate(centre, PROMPT_EFFECT)

    def trial(chance: random.Random) -> bool:
        effects = [chance.gauss(0, PROMPT_EFFECT) for _ in range(prompts)]
        one = draw_runs(chance, "a", effects, runs, centre + shift)
        found = compare_runs(one, draw_runs(chance, "b", effects, runs, centre))
        return found is None or _contains(found.beyond, truth)

    return trial


POWERS = tuple(product(((6, 6), (2, 20), (20, 2)), ((0.9, 0.5), (0.8, 0.7)), (0.0, PROMPT_EFFECT)))
"""Prompts and trials of each; the rates of two arms; how much prompts differ."""


def power_cell(
    design: tuple[int, int], rates: tuple[float, float], effect: float, rounds: int
) -> tuple[float, float]:
    """Return the power that `experiment plan` promises, and how often the report finds the difference."""
    plan = Design(2, *design)
    chance, found = random.Random(f"{design}{rates}{effect}"), 0
    centres = [find_centre(rate, effect) for rate in rates]
    for _ in range(rounds):
        effects = [chance.gauss(0, effect) for _ in range(plan.prompts)]
        sides = [draw_runs(chance, str(arm), effects, plan.trials, centres[arm]) for arm in (0, 1)]
        compared = compare_runs(sides[0], sides[1], plan.level)
        found += compared is not None and compared.here.low > 0
    return find_power(plan.runs, *rates, plan.level), found / rounds


def give_up_cell(rounds: int) -> float:
    """Return how often an arm that gives up early is said to be better at first, though it is not."""
    chance, claims = random.Random("give up"), 0
    for _ in range(rounds):
        sides = []
        for patience in (0.5, 0.0):
            runs = []
            for number in range(10):
                level, cases, going = chance.gauss(0, 1), list[bool](), True
                for _task in range(8):
                    passed = going and chance.random() < logistic(level)
                    cases.append(passed)
                    going = going and (passed or chance.random() >= patience)
                runs.append(RunCases(f"{patience}/{number}", "plan", tuple(cases)))
            sides.append(runs)
        found = compare_runs(sides[0], sides[1])
        claims += found is not None and found.here.low > 0
    return claims / rounds


def forecast_cells() -> Iterator[tuple[str, Trial]]:
    """Yield the next total: of single items of several shapes, and of plans whose tasks are alike."""
    for (shape, draw), earlier in product(SHAPES.items(), (3, 5, 8, 15, 30)):
        yield f"{shape}, {earlier} earlier", _try_forecast(draw, earlier)
    for correlation, earlier in product((0.0, 0.3, 0.6), (3, 6, 12)):
        name = f"plan of {PLAN} tasks, correlation {correlation}, {earlier} earlier runs"
        yield name, _try_forecast(_draw_plan(correlation), earlier)


def _try_forecast(draw: Callable[[random.Random], float], earlier: int) -> Trial:
    def trial(chance: random.Random) -> bool:
        found = predict([draw(chance) for _ in range(earlier)], 0.8)
        return found is not None and found.low <= draw(chance) <= found.high

    return trial


SHAPES: dict[str, Callable[[random.Random], float]] = {
    "lognormal 0.5": lambda chance: chance.lognormvariate(0, 0.5),
    "lognormal 1": lambda chance: chance.lognormvariate(0, 1),
    "gamma": lambda chance: chance.gammavariate(2, 1),
    "a quarter five times as long": lambda chance: (
        chance.lognormvariate(0, 0.5) * (5 if chance.random() < 0.25 else 1)
    ),
}


def _draw_plan(correlation: float) -> Callable[[random.Random], float]:
    def draw(chance: random.Random) -> float:
        run = chance.gauss(0, math.sqrt(correlation))
        own = math.sqrt(1 - correlation)
        return sum(math.exp(run + chance.gauss(0, own)) for _ in range(PLAN))

    return draw


RunSource = Callable[[random.Random], float]
"""Draws the rate of one run."""


def make_source(model: str, rate: float, correlation: float) -> RunSource:
    """Return what the rates of runs are drawn from."""
    if correlation == 0:
        return lambda _: rate
    if model == "beta":
        scale = (1 - correlation) / correlation
        return lambda chance: chance.betavariate(rate * scale, (1 - rate) * scale)
    spread = find_spread(rate, correlation)
    centre = find_centre(rate, spread)
    return lambda chance: logistic(centre + chance.gauss(0, spread))


def draw_cases(chance: random.Random, source: RunSource, runs: int) -> Iterator[tuple[int, bool]]:
    """Yield the cases of so many runs, each with 1 to 20 of them."""
    for run in range(runs):
        rate = source(chance)
        for _ in range(chance.randint(1, MOST_CASES)):
            yield run, chance.random() < rate


def logistic(value: float) -> float:
    """Return the rate of a log-odds."""
    return 1 / (1 + math.exp(-value))


_NODES = [NormalDist().inv_cdf((node + 0.5) / 400) for node in range(400)]


def mean_rate(centre: float, spread: float) -> float:
    """Return the mean rate of log-odds that vary."""
    return sum(logistic(centre + spread * node) for node in _NODES) / len(_NODES)


@cache
def find_centre(rate: float, spread: float) -> float:
    """Return the centre of log-odds that vary so much and have this mean rate."""
    return _solve(lambda centre: mean_rate(centre, spread) - rate, -40, 40)


@cache
def find_spread(rate: float, correlation: float) -> float:
    """Return the spread of log-odds with this mean rate and correlation within runs."""

    def excess(spread: float) -> float:
        centre = find_centre(rate, spread)
        square = sum(logistic(centre + spread * node) ** 2 for node in _NODES) / len(_NODES)
        return (square - rate**2) / (rate * (1 - rate)) - correlation

    return _solve(excess, 0.01, 20)


def _solve(rising: Callable[[float], float], low: float, high: float) -> float:
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return (low + high) / 2


def _contains(found: Difference | None, truth: float) -> bool:
    return found is not None and found.low - 1e-12 <= truth <= found.high + 1e-12
