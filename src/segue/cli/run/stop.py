"""`segue stop`: stop a run and its agent; the state is kept."""

from __future__ import annotations

import time

import click

from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@options("repo", "config", "database", "json", "quiet")
def stop(run_id: str | None, settings: CommandSettings, output: Printer) -> None:
    """Stop RUN (or the newest unfinished run), its agent and all the agent's child processes.

    Nothing is lost: `segue resume` continues from there.

    \b
    Examples:
      segue stop
      segue stop 20261115-0219
    """
    import asyncio

    from segue.cli.runs import find_unfinished, state_of
    from segue.domain.run import RunState
    from segue.runtime.background import stop_run

    app = settings.find()
    with app.store(read_only=True) as store:
        run = find_unfinished(store, app, run_id)
    if run is None or run.state is RunState.DONE:
        output.result(None, "Nothing to stop.")
        return
    began = time.monotonic()
    run = asyncio.run(stop_run(app, run))
    state, seconds = state_of(run), time.monotonic() - began
    output.result({"id": run.id, "state": state}, f"Run {run.id} is {state} ({seconds:.1f} s).")
    output.note(f"Continue with: segue resume {run.id}")
