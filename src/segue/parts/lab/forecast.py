"""`segue forecast`: time and cost of a run, from the totals of one's own earlier ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer
from segue.domain.amounts import format_quantity
from segue.domain.run import RunKind
from segue.domain.task import TaskStatus
from segue.parts.lab.reports.runs import read_usage, read_work
from segue.parts.lab.reports.selection import Dataset, Selection, name_setting
from segue.parts.lab.reports.statistics import FEWEST_TOTALS, Prediction, predict
from segue.ports import Source
from segue.runtime.app import App
from segue.system.reading import work_tree

if TYPE_CHECKING:
    from segue.store.store import Store


CONFIDENCE = 0.8
"""With few runs a 95 % interval of the next one is too wide to be of use."""

_ENDED = ("done", "failed", "needs_human")
_ALIKE = 2
"""Runs have about as many tasks if neither has more than so many times those of the other."""


class Upcoming(Struct, frozen=True):
    """The run that is forecast."""

    kind: RunKind
    key: str
    """Names its source and repository."""
    source: str
    setting: str
    """Agent and model; empty: any."""
    tasks: int | None
    """How many tasks it has; None: an agent will plan them."""


class Outlook(Struct, frozen=True):
    """What earlier runs say about the next one."""

    basis: str
    """Which runs."""
    runs: int
    seconds: Prediction | None
    cost_usd: Prediction | None
    open: int
    """Comparable runs that have not ended: their totals are unknown, and may be larger."""

    def to_json(self) -> dict[str, Any]:
        """Return what programs read."""
        return {
            "basis": self.basis,
            "runs": self.runs,
            "needed": FEWEST_TOTALS,
            "open": self.open,
            "confidence": CONFIDENCE,
            "seconds": _to_json(self.seconds),
            "cost_usd": _to_json(self.cost_usd),
        }


class _Earlier(Struct, frozen=True):
    """One earlier run."""

    key: str
    source: str
    setting: str
    tasks: int
    ended: bool
    seconds: float
    cost_usd: float | None


def ask_history(store: Store, upcoming: Upcoming) -> Outlook:
    """Forecast from the most similar runs of which there are enough."""
    history = list(_read_history(store, upcoming.kind))
    found: Outlook | None = None
    for basis, runs in _list_bases(history, upcoming):
        outlook = _predict(basis, runs)
        if outlook.seconds is not None:
            return outlook
        found = found or outlook
    assert found is not None
    return found


def _list_bases(history: Sequence[_Earlier], upcoming: Upcoming) -> Iterator[tuple[str, list[_Earlier]]]:
    """Yield comparable runs, the most similar ones first."""
    same = [run for run in history if run.key == upcoming.key or _is_same_prompt(run, upcoming)]
    if upcoming.setting:
        chosen = [run for run in same if run.setting == upcoming.setting]
        yield f"runs of this source with {upcoming.setting}", chosen
    yield "runs of this source", same
    alike = [
        run
        for run in history
        if run.setting == (upcoming.setting or run.setting)
        and (upcoming.tasks is None or run.tasks <= _ALIKE * upcoming.tasks <= _ALIKE**2 * run.tasks)
    ]
    who = f" with {upcoming.setting}" if upcoming.setting else ""
    size = "" if upcoming.tasks is None else " and about as many tasks"
    yield f"runs of kind {upcoming.kind}{who}{size}", alike


def _is_same_prompt(run: _Earlier, upcoming: Upcoming) -> bool:
    """Return whether both build the same thing, wherever; plans are the same only in their repository."""
    return upcoming.kind.is_planned and run.source == upcoming.source


def _predict(basis: str, runs: Sequence[_Earlier]) -> Outlook:
    ended = [run for run in runs if run.ended]
    costs = [run.cost_usd for run in ended if run.cost_usd]
    return Outlook(
        basis,
        len(ended),
        predict([run.seconds for run in ended], CONFIDENCE),
        predict(costs, CONFIDENCE) if len(costs) == len(ended) else None,
        len(runs) - len(ended),
    )


def _read_history(store: Store, kind: RunKind) -> Iterator[_Earlier]:
    dataset = Dataset(store, Selection(kind=kind))
    used, work = read_usage(dataset), read_work(dataset)
    tasks = Counter(row["run_id"] for row in dataset.ask("tasks"))
    keys = {
        row["id"]: str(row["source_key"])
        for row in store.query("SELECT id, source_key FROM orchestrator_runs WHERE kind = ?", [kind.value])
    }
    for run in dataset.ask("runs"):
        name = run["run_id"]
        yield _Earlier(
            key=keys[name],
            source=str(run["source"]),
            setting=name_setting(run),
            tasks=tasks[name],
            ended=run["state"] in _ENDED,
            seconds=work.get(name, 0) / 1000,
            cost_usd=used[name].usage.cost_usd,
        )


def _to_json(found: Prediction | None) -> dict[str, float] | None:
    if found is None:
        return None
    return {"middle": round(found.middle, 6), "low": round(found.low, 6), "high": round(found.high, 6)}


@click.command()
@click.argument("source", required=False)
@click.option("--agent", help="The agent to use.")
@click.option("--model", help="The model to use.")
@options("repo", "config", "database", "json", "color")
def forecast(source: str | None, settings: CommandSettings, output: Printer) -> None:
    """Forecast how long a run of SOURCE takes and what it costs, from your own earlier runs.

    The totals of at least three comparable runs are needed: of the same source with the same agent, else of
    the same source, else of the same kind, agent and size. Without them there is no forecast.

    \b
    Examples:
      segue forecast plan.md
      segue forecast "Build a todo app with accounts" --agent claude --model opus
    """
    app = settings.look()
    outlook = predict_run(app, app.source(source, work_tree(app.repo)))
    output.result(outlook.to_json(), "\n".join(_describe(outlook)))


def describe_briefly(app: App, source: Source) -> str:
    """Return the forecast in a few words, as `segue run` shows it before it asks."""
    outlook = predict_run(app, source)
    if outlook.seconds is None:
        return f"no history yet: {outlook.runs} of {FEWEST_TOTALS} comparable runs"
    cost = "cost not reported"
    if outlook.cost_usd is not None:
        cost = f"about {format_quantity(outlook.cost_usd.middle, 'cost_usd')}"
    time = format_quantity(outlook.seconds.middle, "seconds")
    return f"about {time}, {cost}, from {outlook.runs} runs"


def predict_run(app: App, source: Source) -> Outlook:
    """Ask the history how long a run of the source will take with the chosen agent, and what it costs."""
    chosen = app.loaded.settings
    tasks = None
    if source.outline is None or source.outline.is_planned():
        tasks = sum(task.status is TaskStatus.PENDING for task in source.look().tasks)
    setting = " ".join(part for part in (chosen.agent, chosen.model) if part)
    upcoming = Upcoming(source.run_kind, source.key, source.address, setting, tasks)
    with app.store(read_only=True) as store:
        return ask_history(store, upcoming)


def _describe(outlook: Outlook) -> list[str]:
    if outlook.seconds is None:
        return [
            f"No forecast: {outlook.runs} earlier {outlook.basis} ended, and {FEWEST_TOTALS} are needed.",
            "Nothing is guessed from the runs of others.",
        ]
    lines = [
        f"From {outlook.runs} earlier {outlook.basis}:",
        _line("time", outlook.seconds, "seconds"),
        "cost  not reported by all of these runs"
        if outlook.cost_usd is None
        else _line("cost", outlook.cost_usd, "cost_usd"),
        "until the run is done or needs you; 80 % of such runs are in the range.",
    ]
    if outlook.open:
        lines.append(f"{outlook.open} more have not ended: if they take longer, so may this one.")
    return lines


def _line(name: str, found: Prediction, measure: str) -> str:
    middle, low, high = (format_quantity(value, measure) for value in (found.middle, found.low, found.high))
    return f"{name}  about {middle}, between {low} and {high}"
