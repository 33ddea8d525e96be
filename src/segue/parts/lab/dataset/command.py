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
@click.option("--no-instances", is_flag=True, help="Leave out task instances: no test is run.")
@options("repo", "config", "trust", "database", "json")
def publish(
    folder: Path,
    run_ids: tuple[str, ...],
    name: str | None,
    licence: str,
    no_instances: bool,
    settings: CommandSettings,
    output: Printer,
) -> None:
    """Write a folder that is ready to be published; nothing is uploaded.

    It has the flat tables as Parquet files, every attempt as a trajectory (ATIF) and as a trace of the Hub,
    tasks as rows like those of SWE-bench, where all comes from, a data card and a report about redaction.
    Only runs that work on tasks and have ended are written. The tests of each instance are run again, in the
    sandbox, from the folder alone: what does not hold is left out.

    \b
    Examples:
      segue dataset publish my-dataset --licence cc-by-4.0
      segue dataset publish one-run --run 20261115-0219
    """
    import asyncio
    from typing import Any

    from msgspec import to_builtins

    from segue.parts.lab.dataset.publish import Cleaner, Publication, choose_runs
    from segue.parts.lab.dataset.publish import publish as write
    from segue.parts.lab.dataset.verify import VerifiedInstance, verify_row

    if not _LICENCE.fullmatch(licence):
        raise UsageError(
            f"{licence!r} is not the name of a licence.", hint="Give it as the Hub does: cc-by-4.0, mit, …"
        )
    app = settings.look() if no_instances else settings.load()
    isolation, timeout = app.isolation(), app.loaded.settings.check_timeout

    async def verify(row: dict[str, Any], place: Path) -> VerifiedInstance:
        return await verify_row(row, place, isolation, timeout, learn=True)

    with app.store(read_only=True) as store:
        runs, going = choose_runs(store, run_ids)
        if not runs:
            raise UsageError(
                "No run has ended that could be published.", hint="`segue status` lists the runs."
            )
        made = Publication(name or folder.absolute().name, licence, left_out=going)
        cleaner = Cleaner(app.redactor(), places=[run.spec.repo for run in runs])
        asyncio.run(write(store, runs, folder, made, cleaner, None if no_instances else verify))
    text = (
        f"{folder}: {made.runs} runs, {made.trajectories} attempts, {made.instances} task instances;"
        f" {len(made.left_out)} left out (see README.md).\n"
        f"Look through it before you publish; {folder / 'redaction.json'} says what was masked."
    )
    output.result(to_builtins(made), text)
    if licence == "unknown":
        output.note("No licence is stated: without one, others may not use it. Give one with --licence.")


@dataset.command("verify")
@click.argument("folder", metavar="DIR", type=FOLDER)
@options("repo", "config", "trust", "database", "json")
def verify(folder: Path, settings: CommandSettings, output: Printer) -> int:
    """Run the instances of a published dataset again, from its folder alone, and print how many hold.

    Their tests run in the sandbox: they come from whoever published them. An instance holds if its
    FAIL_TO_PASS fail without its patch and pass with it, and its PASS_TO_PASS pass both times. Exits with 3
    where one does not hold.

    \b
    Examples:
      segue dataset verify my-dataset
    """
    import asyncio

    from segue.parts.lab.dataset.verify import VerifiedInstance, count_holding, read_rows, verify_row

    app = settings.load()
    isolation, timeout = app.isolation(), app.loaded.settings.check_timeout

    async def verify_all() -> list[VerifiedInstance]:
        return [await verify_row(row, folder.absolute(), isolation, timeout) for row in read_rows(folder)]

    found = asyncio.run(verify_all())
    holding = count_holding(found)
    rows = [{"instance": one.instance, "holds": one.holds, "problem": one.problem} for one in found]
    lines = [f"{holding} of {len(found)} instances hold."]
    lines += [f"  {one.instance}: {one.problem}" for one in found if not one.holds]
    output.result({"instances": rows, "holding": holding}, "\n".join(lines))
    return 0 if holding == len(found) else 3
