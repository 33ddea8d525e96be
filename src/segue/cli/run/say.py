"""`segue say`: say something to the agent of a task, while it works or before it begins."""

from __future__ import annotations

import click

from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer


@click.command()
@click.argument("key", metavar="TASK")
@click.argument("text")
@click.option("--run", "run_id", metavar="RUN", help="The run the task belongs to (default: the newest).")
@options("repo", "config", "database", "json", "quiet")
def say(key: str, text: str, run_id: str | None, settings: CommandSettings, output: Printer) -> None:
    """Say TEXT to the agent of TASK, while it works or before it begins.

    The answer says when the agent gets it: now, in its session; at its next turn; or with its next launch.
    Your words add to the task: checks, the level of its proof and its scope stay as they are.

    \b
    Examples:
      segue say 3 "Use the helper in dates.py"
      segue say T012 "The login page has moved to /sign-in" --run 20261115-0219
    """
    import asyncio

    from segue.cli.run.task import find
    from segue.cli.runs import refuse_swapped
    from segue.runtime.comments import describe_way
    from segue.runtime.comments import say as say_to_agent

    refuse_swapped("say", key, text)
    run, app = find(run_id, settings)
    way = asyncio.run(say_to_agent(app, run, key, text))
    output.result({"run": run.id, "task": key, "said": text, "how": way}, describe_way(key, way))
    if way is None:
        output.note(f"Continue with: segue resume {run.id}")
