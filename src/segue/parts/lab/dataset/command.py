"""`segue dataset`: the dataset in the forms that others read."""

from __future__ import annotations

import re
from pathlib import Path

import click

from segue.cli.options import FOLDER, CommandSettings, options
from segue.cli.terminal.output import Printer
from segue.domain.errors import UsageError

_LICENCE = re.compile(r"[a-z0-9][a-z0-9.+-]*")


@click.group()
def dataset() -> None:
    """Write trajectories, task instances, and a folder to publish.

    \b
    Examples:
      segue dataset publish my-dataset --licence cc-by-4.0
    """


@dataset.command("publish")
@click.argument("folder", metavar="DIR", type=FOLDER)
@click.option("--run", "run_ids", metavar="RUN", multiple=True, help="Only this run (repeatable).")
@click.option("--name", help="The name of the dataset (default: that of the folder).")
@click.option(
    "--licence",
    metavar="ID",
    default="unknown",
    show_default=True,
    help="The licence as the Hub calls it, such as `cc-by-4.0` or `mit`.",
)
@options("repo", "config", "database", "json")
def publish(
    folder: Path,
    run_ids: tuple[str, ...],
    name: str | None,
    licence: str,
    settings: CommandSettings,
    output: Printer,
) -> None:
    """Write a folder that is ready to be published; nothing is uploaded.

    It has the flat tables as Parquet files, every attempt as a trajectory (ATIF) and as a trace of the Hub,
    tasks as rows like those of SWE-bench, a data card and a report about redaction. Only runs that work on
    tasks are written.

    \b
    Examples:
      segue dataset publish my-dataset --licence cc-by-4.0
      segue dataset publish one-run --run 20261115-0219
    """
    from msgspec import to_builtins

    from segue.parts.lab.dataset.publish import Cleaner, Publication, choose_runs
    from segue.parts.lab.dataset.publish import publish as write

    if not _LICENCE.fullmatch(licence):
        raise UsageError(
            f"{licence!r} is not the name of a licence.", hint="Give it as the Hub does: cc-by-4.0, mit, …"
        )
    app = settings.look()
    with app.store(read_only=True) as store:
        runs = choose_runs(store, run_ids)
        if not runs:
            raise UsageError("There are no runs to publish.", hint="`segue status` lists the runs.")
        made = Publication(name or folder.absolute().name, licence)
        write(store, runs, folder, made, Cleaner(app.redactor()))
    text = (
        f"{folder}: {made.runs} runs, {made.trajectories} attempts, {made.instances} task instances.\n"
        f"Look through it before you publish; {folder / 'redaction.json'} says what was masked."
    )
    output.result(to_builtins(made), text)
    if licence == "unknown":
        output.note("No licence is stated: without one, others may not use it. Give one with --licence.")
