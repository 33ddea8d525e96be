"""`segue experiment`: the same prompts through several agents, several times, then the comparison."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from segue.cli.options import make_output, options

if TYPE_CHECKING:
    from segue.cli.output import Output
    from segue.domain.run import Run
    from segue.runtime.experiment import Experiment, Result, Trial
    from segue.runtime.wiring import App


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--trials", type=click.IntRange(min=1), default=None, help="Instead of the file's number.")
@click.option("--dry-run", is_flag=True, help="List the trials and what is known of them; run nothing.")
@options("config", "database", "json", "color")
def experiment(
    file: Path,
    trials: int | None,
    dry_run: bool,
    config_file: Path | None,
    as_json: bool,
    color: str,
    **settings: Any,
) -> int:
    """Run prompts × agents × trials as FILE says, each in a repository of its own, and compare.

    Trials that are over are not repeated: the same command goes on after a stop, and a higher number of
    trials adds the missing ones.

    \b
    Examples:
      segue experiment todo.toml
      segue experiment todo.toml --trials 10      add trials to those that are there
      segue experiment todo.toml --dry-run

    \b
    FILE:
      prompts = ["Build a todo app with accounts"]
      agents = ["claude:sonnet", "codex"]
      trials = 5
      at_once = 2
      limits.claude = 1
    """
    import asyncio

    import msgspec

    from segue.runtime import experiment as lab
    from segue.runtime.wiring import App

    output = make_output(as_json, color=color)
    app = App.load(file.absolute().parent, config_file, settings)
    found = lab.read(file)
    if trials is not None:
        found = msgspec.structs.replace(found, trials=trials)
    if dry_run:
        return _list(app, found, output)
    results = asyncio.run(lab.carry_out(app, found, file.absolute().parent, _teller(output)))
    _summary(app, found, results, output)
    failed = [result.code for result in results if not result.ended]
    return max(failed, default=0)


def _teller(output: Output) -> Any:
    words = {
        "started": "started",
        "finished": "finished:",
        "kept": "was over before:",
        "failed": "could not be finished:",
    }

    def told(what: str, trial: Trial, run: Run | None) -> None:
        state = f" {run.state} (run {run.id})" if run is not None and what != "started" else ""
        output.note(f"{trial.name} {words[what]}{state}")

    return told


def _list(app: App, found: Experiment, output: Output) -> int:
    from segue.runtime import experiment as lab
    from segue.sources.prompt import pair_key

    rows = []
    with app.store(read_only=True) as store:
        for trial in lab.trials(found):
            runs = store.runs(source_key=pair_key(trial.prompt, trial.repo), limit=1)
            rows.append((trial.name, runs[0].state if runs else "to be done", str(trial.repo)))
    if output.json:
        output.data([dict(zip(("trial", "state", "repo"), row, strict=True)) for row in rows])
    else:
        output.table(["trial", "state", "repository"], rows)
    return 0


def _summary(app: App, found: Experiment, results: list[Result], output: Output) -> None:
    """The comparison of what is known of these prompts, and the trials that are still open."""
    from segue.cli.report_text import show
    from segue.reports.build import build_reports
    from segue.reports.selection import Selection

    with app.store(read_only=True) as store:
        reports = build_reports(store, ("compare",), Selection(sources=tuple(dict.fromkeys(found.prompts))))
    if output.json:
        rows = [
            {
                "trial": result.trial.name,
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
    show(reports, output, 50)
    for result in results:
        if not result.ended:
            output.warn(f"{result.trial.name} ended with exit code {result.code}: see {result.log}")
