"""What an experiment can show, before it costs anything: its power, and what a trial will take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.cli.terminal.output import Printer
from segue.domain.amounts import format_quantity
from segue.domain.run import RunKind
from segue.parts.lab.experiment import trials as lab
from segue.parts.lab.experiment.arms import Arm
from segue.parts.lab.experiment.power import POWER, Design, find_power, find_smallest_difference
from segue.parts.lab.experiment.trials import Experiment
from segue.parts.lab.forecast import Outlook, Upcoming, ask_history
from segue.parts.lab.reports.report import format_percent
from segue.parts.lab.reports.runs import RunDetails, make_outcome, measure_runs
from segue.parts.lab.reports.selection import Dataset, Selection, name_arm
from segue.parts.lab.reports.statistics import FEWEST_PROMPTS, Proportion, tally
from segue.runtime.app import App

if TYPE_CHECKING:
    from segue.store.store import Store


_UNKNOWN = 0.5
"""The rate at which differences are hardest to find."""

_DIFFERENCES = (0.2, 0.3, 0.5)


def show_plan(app: App, experiment: Experiment, output: Printer) -> None:
    """Print how likely the experiment finds differences of several sizes, and what a trial takes."""
    trials = list(lab.trials(experiment))
    arms = experiment.list_arms()
    design = Design(len(arms), len(experiment.prompts), experiment.trials, experiment.looks)
    with app.store(read_only=True) as store:
        past = _find_rate(store, experiment)
        outlooks = {arm.label: _forecast(store, arm, experiment) for arm in arms}
    rate = past.value if past.value is not None and past.interval is not None else _UNKNOWN
    sizes = {"all prompts together": (design.runs, design.level)}
    if design.prompts > 1:
        sizes["each prompt alone"] = (design.trials, design.level_of_each)
    data: dict[str, Any] = {
        "trials": len(trials),
        "comparisons": design.comparisons,
        "level": round(design.level, 5),
        "pass_rate": round(rate, 4),
        "past_runs": len(past.runs),
        "power": [_measure(name, *size, rate) for name, size in sizes.items()],
        "forecast": {agent: found.to_json() for agent, found in outlooks.items()},
    }
    if output.json:
        output.data(data)
    else:
        output.text("\n".join(_lines(data, design, past, outlooks, "arm" if experiment.arms else "agent")))


def _measure(name: str, runs: int, level: float, rate: float) -> dict[str, Any]:
    side = -1 if rate >= _UNKNOWN else 1
    powers = {
        f"{100 * size:.0f}": round(find_power(min(runs, 300), rate, rate + side * size, level), 3)
        for size in _DIFFERENCES
    }
    smallest = find_smallest_difference(runs, rate, level)
    return {"on": name, "runs_per_arm": runs, "smallest": smallest, "power": powers}


def _lines(
    data: dict[str, Any], design: Design, past: Proportion, outlooks: dict[str, Outlook], one: str
) -> list[str]:
    lines = [
        f"{design.prompts} × {design.arms} × {design.trials} = {data['trials']} trials"
        f" (prompts × {one}s × trials).",
        f"{data['comparisons']} rates are compared, each at {100 * data['level']:.1f} %,"
        " so that all together have 95 %.",
        f"Pass rate: {format_percent(data['pass_rate'])} %, from {len(past.runs)} earlier trials."
        if past.interval is not None
        else "Pass rate: not known yet; at 50 % differences are hardest to find.",
    ]
    for row in data["power"]:
        found = ", ".join(f"{size} points {format_percent(power)} %" for size, power in row["power"].items())
        smallest = row["smallest"]
        enough = f"{100 * smallest:.0f} points" if smallest is not None else "no difference"
        lines += [
            f"On {row['on']}, {row['runs_per_arm']} runs of each {one}: {enough} would be found in"
            f" {format_percent(POWER)} % of such experiments.",
            f"  Chance to find a true difference of {found}.",
        ]
    lines.append(
        "It will speak of these prompts"
        + (
            " and of prompts like these."
            if design.prompts >= FEWEST_PROMPTS
            else f"; to speak of prompts like these it needs {FEWEST_PROMPTS} of them."
        )
    )
    for agent, outlook in outlooks.items():
        if outlook.seconds is None:
            lines.append(f"{agent}: no forecast of time and cost, only {outlook.runs} earlier trials ended.")
            continue
        shown = [
            f"{format_quantity(one.low, unit)} to {format_quantity(one.high, unit)}"
            for one, unit in ((outlook.seconds, "seconds"), (outlook.cost_usd, "cost_usd"))
            if one is not None
        ]
        lines.append(f"{agent}: a trial takes {' and '.join(shown)} (80 %, from {outlook.runs} trials).")
    return lines


def _find_rate(store: Store, experiment: Experiment) -> Proportion:
    """Return how often earlier trials of these prompts passed."""
    chosen = Selection(sources=tuple(experiment.prompts), kind=RunKind.TRIAL)
    dataset = Dataset(store, chosen)
    details = dataset.compute(RunDetails.read)
    return tally((run["run_id"], make_outcome(run, details).passed) for run in dataset.compute(measure_runs))


def _forecast(store: Store, arm: Arm, experiment: Experiment) -> Outlook:
    setting = name_arm(experiment.name, arm.name) if arm.name else arm.choice.name.replace(":", " ")
    upcoming = Upcoming(RunKind.TRIAL, "", experiment.prompts[0], setting, None)
    return ask_history(store, upcoming)
