"""`segue experiment`: run the same prompts with several agents, several times, and compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from segue.cli.options import FILE, CommandSettings, WholeNumber, options
from segue.cli.terminal.output import Printer

if TYPE_CHECKING:
    from segue.domain.run import Run
    from segue.parts.lab.experiment.trials import Experiment, Trial, TrialResult
    from segue.runtime.app import App


class _DefaultGroup(click.Group):
    """A group whose command `run` may be left out: `segue experiment FILE`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Take anything but the name of a command as what `run` is about."""
        return super().resolve_command(ctx, args if args[0] in self.commands else ["run", *args])


@click.group(
    cls=_DefaultGroup,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    no_args_is_help=True,
)
def experiment() -> None:
    """Compare agents, models and settings on the same prompts; `segue experiment FILE` runs an experiment.

    \b
    Examples:
      segue experiment plan todo.toml     what it can show, before it costs anything
      segue experiment todo.toml
    """


@experiment.command()
@click.argument("file", type=FILE)
@click.option("--trials", type=WholeNumber(min=1), help="Override the number in the file.")
@options("config", "database", "json", "color")
def plan(file: Path, trials: int | None, settings: CommandSettings, output: Printer) -> None:
    """Say how large a difference the experiment in FILE can find, before it starts.

    \b
    Examples:
      segue experiment plan todo.toml
      segue experiment plan todo.toml --trials 20
    """
    from msgspec.structs import replace

    from segue.parts.lab.experiment import trials as lab
    from segue.parts.lab.experiment.plan import show_plan

    app = replace(settings, repo=file.absolute().parent).look()
    found = lab.read(file, settings.config)
    show_plan(app, found if trials is None else replace(found, trials=trials), output)


@experiment.command()
@click.argument("file", type=FILE)
@click.option("--trials", type=WholeNumber(min=1), help="Override the number in the file.")
@click.option("--dry-run", is_flag=True, help="List the trials and their state; run nothing.")
@options("config", "database", "json", "color")
def run(file: Path, trials: int | None, dry_run: bool, settings: CommandSettings, output: Printer) -> int:
    """Run every prompt in FILE with every agent or arm, each trial in its own repository, and compare.

    Finished trials are not repeated: run the same command again to continue after a stop, or with a higher
    number of trials to add the missing ones.

    \b
    Examples:
      segue experiment todo.toml
      segue experiment todo.toml --trials 10      add trials to the existing ones
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

    from msgspec.structs import replace

    from segue.parts.lab.experiment import trials as lab

    place = replace(settings, repo=file.absolute().parent)
    app = place.look() if dry_run else place.load()
    found = lab.read(file, settings.config)
    if trials is not None:
        found = replace(found, trials=trials)
    if dry_run:
        return _list(app, found, output)
    if found.template is not None:
        replace(settings, repo=found.template).load()  # every trial starts with its settings
    with app.store() as store:
        lab.refuse_changed(store, found)
    results = asyncio.run(lab.run_trials(app, found, file.absolute().parent, _reporter(output)))
    _print_summary(app, found, results, output)
    failed = [result.code for result in results if not result.ended]
    return max(failed, default=0)


def _reporter(output: Printer) -> Any:
    words = {
        "started": "started",
        "waiting": "is run by the fleet:",
        "finished": "finished:",
        "kept": "was already finished:",
        "failed": "did not finish:",
    }

    def report(what: str, trial: Trial, run: Run | None) -> None:
        state = f" {run.state} (run {run.id})" if run is not None and what != "started" else ""
        output.note(f"{trial.name} {words[what]}{state}")

    return report


def _list(app: App, found: Experiment, output: Printer) -> int:
    from segue.parts.lab.experiment import trials as lab

    rows = []
    with app.store(read_only=True) as store:
        lab.refuse_changed(store, found)
        for trial in lab.trials(found):
            run = lab.last_run(app, store, found, trial)
            state, name = (run.state, run.id) if run else ("pending", "")
            rows.append((trial.name, state, name, _place(trial, run), trial.arm.name or None))
    if output.json:
        names = ("trial", "state", "run", "repo", "arm")
        output.data([dict(zip(names, row, strict=True)) for row in rows])
    else:
        output.table(["trial", "state", "run", "repository"], [row[:4] for row in rows])
    return 0


def _place(trial: Trial, run: Run | None) -> str:
    """Return the repository of a trial: a folder here, or what the fleet has cloned."""
    return run.spec.repo if run is not None and run.spec.origin is not None else str(trial.repo)


def _print_summary(app: App, found: Experiment, results: list[TrialResult], output: Printer) -> None:
    """Print the comparison of these prompts, and the trials that did not finish."""
    from segue.domain.run import RunKind
    from segue.parts.lab.reports.build import build_reports
    from segue.parts.lab.reports.selection import Selection
    from segue.parts.lab.reports.terminal import print_reports

    with app.store(read_only=True) as store:
        chosen = Selection(sources=tuple(dict.fromkeys(found.prompts)), kind=RunKind.TRIAL)
        reports = build_reports(store, ("compare",), chosen)
    if output.json:
        rows = [
            {
                "trial": result.trial.name,
                "arm": result.trial.arm.name or None,
                "repo": _place(result.trial, result.run),
                "run": result.run.id if result.run else None,
                "state": result.run.state if result.run else None,
                "exit_code": result.code,
                "log": None if _is_far(result) else str(result.log),
            }
            for result in results
        ]
        output.data({"trials": rows, "comparison": reports[0].to_json()})
        return
    print_reports(reports, output, 50)
    for result in results:
        if not result.ended and _is_far(result) and result.run is not None:
            output.warn(f"{result.trial.name} is {result.run.state}: see segue logs {result.run.id}")
        elif not result.ended:
            output.warn(f"{result.trial.name} ended with exit code {result.code}: see {result.log}")


def _is_far(result: TrialResult) -> bool:
    return result.run is not None and result.run.spec.origin is not None
