"""`segue forecast`: time and cost of a run, from one's own history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer

if TYPE_CHECKING:
    from segue.parts.lab.forecast import Outlook
    from segue.parts.lab.reports.statistics import Prediction
    from segue.ports import Source
    from segue.runtime.app import App


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
    from segue.system.reading import work_tree

    app = settings.look()
    outlook = predict_run(app, app.source(source, work_tree(app.repo)))
    output.result(outlook.to_json(), "\n".join(_describe(outlook)))


def predict_run(app: App, source: Source) -> Outlook:
    """Ask the history how long a run of the source will take with the chosen agent, and what it costs."""
    from segue.domain.task import TaskStatus
    from segue.parts.lab.forecast import Upcoming
    from segue.parts.lab.forecast import forecast as ask_history

    chosen = app.loaded.settings
    planned = source.outline is not None and not source.outline.is_planned()
    pending = (
        [task for task in source.look().tasks if task.status is TaskStatus.PENDING] if not planned else []
    )
    upcoming = Upcoming(
        kind=source.run_kind,
        key=source.key,
        source=source.address,
        setting=" ".join(part for part in (chosen.agent, chosen.model) if part),
        tasks=None if planned else len(pending),
    )
    with app.store(read_only=True) as store:
        return ask_history(store, upcoming)


def _describe(outlook: Outlook) -> list[str]:
    from segue.parts.lab.reports.statistics import FEWEST_TOTALS

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
    from segue.domain.amounts import format_quantity

    middle, low, high = (format_quantity(value, measure) for value in (found.middle, found.low, found.high))
    return f"{name}  about {middle}, between {low} and {high}"
