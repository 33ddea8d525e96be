"""`segue resume`: continue a run that did not finish."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from segue.cli.options import options
from segue.cli.terminal.output import Printer


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@options("verbose", "repo", "config", "database", "json", "quiet", "color")
def resume(
    run_id: str | None,
    verbose: bool,
    repo: Path | None,
    config_file: Path | None,
    output: Printer,
    **settings: Any,
) -> int:
    """Continue RUN, or the last run that did not finish.

    Finished work is not repeated, and an agent that is still running is adopted instead of started again.

    \b
    Examples:
      segue resume
      segue resume 20261115-0219
    """
    import asyncio

    from segue.cli.run.session import show_session
    from segue.cli.runs import find_run
    from segue.domain.errors import UsageError
    from segue.domain.run import RunKind
    from segue.proof.guard import settle_settings
    from segue.runtime.app import App
    from segue.runtime.open import reopen_run

    app = App.load(repo, config_file, settings)
    with app.store(read_only=True) as store:
        run = find_run(store, app, run_id, unfinished=True)
    if run is None:
        if output.json:
            output.record({"type": "done", "run": None, "state": "done", "exit_code": 0})
        output.text("Nothing to resume: every run is done.")
        return 0
    if run.spec.kind is RunKind.CONVERSATION:
        from segue.cli.serve import conversation

        app, run = conversation.reopen(run.id, config_file, settings)
        return conversation.hold(app, run, output, wait_reminders=False, verbose=verbose)
    if not run.spec.kind.has_tasks:
        raise UsageError(
            f"Run {run.id} has no tasks to continue with: its kind is {run.spec.kind}.",
            kept="Nothing was changed.",
            hint="List the runs: segue status",
        )
    settled = settle_settings(app.guard_folder(run.id))
    if settled:
        output.warn(settled)
    config = config_file or (Path(run.spec.config) if run.spec.config else None)
    app = App.load(Path(run.spec.repo), config, settings, stored=run.spec.settings)

    async def proceed() -> int:
        async with reopen_run(app, run) as opened:
            return await show_session(opened, output, verbose)

    return asyncio.run(proceed())
