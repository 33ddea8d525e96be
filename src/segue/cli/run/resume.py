"""`segue resume`: continue a run that did not finish."""

from __future__ import annotations

import click

from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer
from segue.cli.terminal.readers import outlive_readers


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@options("trust", "verbose", "repo", "config", "database", "json", "quiet", "color")
@outlive_readers()
def resume(run_id: str | None, verbose: bool, settings: CommandSettings, output: Printer) -> int:
    """Continue RUN, or the last run that did not finish.

    Finished work is not repeated, and an agent that is still running is adopted instead of started again. A
    run that waits at a gate continues.

    \b
    Examples:
      segue resume
      segue resume 20261115-0219
    """
    import asyncio

    from msgspec.structs import replace

    from segue.cli.run.session import pass_gates, show_session
    from segue.cli.runs import find_run, find_unfinished
    from segue.cli.terminal.log import refuse_log
    from segue.domain.errors import UsageError
    from segue.domain.run import RunKind
    from segue.plugins import find_call
    from segue.proof.guard import settle_settings
    from segue.runtime.moved import settle_here
    from segue.runtime.open import finish_end, reopen_run

    app = replace(settings.find(), tell=output.warn)
    if said := settle_here(app):
        output.warn(said)
    with app.store(read_only=True) as store:
        run = find_unfinished(store, app, run_id, idle=True)
        ended = run or find_run(store, app, "last")
    if run is None:
        asyncio.run(finish_end(settings.find_for(ended), ended))
        if output.json:
            output.record({"type": "done", "run": None, "state": "done", "exit_code": 0})
        output.text("Nothing to resume: every run is done.")
        return 0
    if run.spec.kind is RunKind.CONVERSATION:
        hold = find_call("bridge.hold")
        code: int = hold(settings.load_for(run), run, output, verbose=verbose)
        return code
    if not run.spec.kind.has_tasks:
        raise UsageError(
            f"Run {run.id} has no tasks to continue with: its kind is {run.spec.kind}.",
            kept="Nothing was changed.",
            hint="List the runs: segue status",
        )
    if run.spec.origin is not None:
        resume_there = find_call("fleet.resume")
        asyncio.run(resume_there(app, run))
        output.result({"type": "queued", "run": run.id}, f"Run {run.id} waits for a worker of the fleet.")
        output.note(f"Follow it: segue logs -f {run.id}")
        return 0
    settled = settle_settings(app.guard_folder(run.id))
    if settled:
        output.warn(settled)
    app = replace(settings.load_for(run), tell=output.warn)
    refuse_log(app.loaded.settings.log)

    async def proceed() -> int:
        async with reopen_run(app, run) as opened:
            ended = await show_session(opened, output, verbose)
        return await pass_gates(app, ended, output, verbose)

    return asyncio.run(proceed())
