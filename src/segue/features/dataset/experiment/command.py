"""`segue experiment`: run the same prompts with several agents, several times, and compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from segue.cli.options import FILE, CommandSettings, WholeNumber, options
from segue.cli.terminal.output import Printer

if TYPE_CHECKING:
    from segue.domain.run import Run
    from segue.features.dataset.experiment.trials import Trial, TrialResult
    from segue.runtime.app import App


@click.command()
@click.argument("file", type=FILE)
@click.option("--trials", type=WholeNumber(min=1), help="Override the number in the file.")
@options("config", "database", "json", "color")
def experiment(file: Path, trials: int | None, settings: CommandSettings, output: Printer) -> int:
    """Run every prompt in FILE with every agent or arm, each trial in its own repository, and compare.

    Finished trials are not repeated: run the same command again to continue after a stop, or with a higher
    number of trials to add the missing ones. Changed settings make new trials.

    \b
    Examples:
      segue experiment todo.toml
      segue experiment todo.toml --trials 10      add trials to the existing ones

    \b
    FILE:
      prompts = ["Build a todo app with accounts"]
      agents = ["claude:sonnet", "codex"]
      trials = 5
      at_once = 2
    """
    import asyncio

    from msgspec.structs import replace

    from segue.features.dataset.experiment.file import read_experiment
    from segue.features.dataset.experiment.trials import run_trials

    app = replace(settings, repo=file.absolute().parent).load()
    found = read_experiment(file, settings.config)
    if trials is not None:
        found = replace(found, trials=trials)
    if found.template is not None:
        replace(settings, repo=found.template).load()  # every trial starts with its settings
    results = asyncio.run(run_trials(app, found, file.absolute().parent, _reporter(output)))
    _print_summary(app, results, output)
    return max((result.code for result in results if not result.ended), default=0)


def _reporter(output: Printer) -> Any:
    words = {
        "started": "started",
        "waiting": "is run by another process, which is waited for:",
        "finished": "finished:",
        "kept": "was already finished:",
        "failed": "did not finish:",
    }

    def report(what: str, trial: Trial, run: Run | None) -> None:
        state = f" {run.state} (run {run.id})" if run is not None and what != "started" else ""
        output.note(f"{trial.name} {words[what]}{state}")

    return report


def _print_summary(app: App, results: list[TrialResult], output: Printer) -> None:
    """Print the comparison of these trials, and those that did not finish."""
    from segue.domain.run import RunKind
    from segue.features.dataset.reports.build import build_reports
    from segue.features.dataset.reports.selection import Selection
    from segue.features.dataset.reports.terminal import print_reports

    runs = tuple(result.run.id for result in results if result.run is not None)
    with app.store(read_only=True) as store:
        reports = build_reports(store, ("compare",), Selection(runs=runs, kind=RunKind.TRIAL))
    if output.json:
        rows = [
            {
                "trial": result.trial.name,
                "arm": result.trial.arm.name or None,
                "repo": str(result.trial.repo),
                "run": result.run.id if result.run else None,
                "state": result.run.state if result.run else None,
                "exit_code": result.code,
                "log": str(result.log),
            }
            for result in results
        ]
        output.data({"trials": rows, "comparison": reports[0].to_json()})
        return
    print_reports(reports, output, 50)
    for result in results:
        if not result.ended:
            output.warn(f"{result.trial.name} ended with exit code {result.code}: see {result.log}")
