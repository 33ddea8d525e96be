"""`segue run`: carry the tasks of a plan through an agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from segue.cli.options import make_output, options


@click.command()
@click.argument("source")
@click.option("--agent", default=None, help="Who does the work: see `segue agent list`.")
@click.option("--model", default=None, help="The model the agent should use.")
@click.option("--flow", default=None, help="How each task is carried.")
@click.option("--task", "only", multiple=True, metavar="KEY", help="Only this task (repeatable).")
@click.option("--from", "start", default=None, metavar="KEY", help="This task and all after it.")
@click.option("--dry-run", is_flag=True, help="Print every prompt; launch nothing, write nothing.")
@click.option("--detach", is_flag=True, help="Work in the background; follow with `segue logs -f`.")
@click.option("--allow-dirty", is_flag=True, default=None, help="Start with uncommitted changes.")
@click.option("--allow-no-change", is_flag=True, default=None, help="A task may change nothing.")
@click.option(
    "--commit",
    type=click.Choice(["task", "phase", "never"]),
    default=None,
    help="When Segue commits what the agent changed.",
)
@click.option("-v", "--verbose", is_flag=True, help="A line for everything the agent says and does.")
@options("plan_format", "repo", "config", "database", "json", "quiet", "color")
def run(
    source: str,
    only: tuple[str, ...],
    start: str | None,
    dry_run: bool,
    detach: bool,
    verbose: bool,
    repo: Path | None,
    config_file: Path | None,
    as_json: bool,
    quiet: bool,
    color: str,
    **settings: Any,
) -> int:
    """Carry the tasks of SOURCE, a plan file with `## Task N` headings, through an agent.

    Running the same command again goes on where the last run stopped.

    \b
    Examples:
      segue run plan.md --agent scripted             rehearse with the simulated agent
      segue run plan.md --agent command --task 3     only task 3
      segue run plan.md --from 4 --commit never      from task 4 on, leave commits to me
      segue run plan.md --dry-run                    see every prompt
      segue run plan.md --detach && segue logs -f    in the background
    """
    import asyncio

    from segue.app import App
    from segue.cli import drive

    output = make_output(as_json, quiet, color)
    app = App.load(repo, config_file, settings)
    if dry_run:
        return drive.dry_run(app, source, only, start, output)
    return asyncio.run(drive.start(app, source, only, start, output, detach=detach, verbose=verbose))
