"""`segue resume`: go on with a run that did not finish."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from segue.cli.options import make_output, options


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("-v", "--verbose", is_flag=True, help="A line for everything the agent says and does.")
@options("repo", "config", "database", "json", "quiet", "color")
def resume(
    run_id: str | None,
    verbose: bool,
    repo: Path | None,
    config_file: Path | None,
    as_json: bool,
    quiet: bool,
    color: str,
    **settings: Any,
) -> int:
    """Go on with RUN, or with the last run that did not finish.

    What was done is not done again; an agent that still works is adopted, not started a second time.

    \b
    Examples:
      segue resume
      segue resume 20261115-0219
    """
    import asyncio

    from segue.cli import drive, find
    from segue.runtime.plan import reopened
    from segue.runtime.wiring import App

    output = make_output(as_json, quiet, color)
    app = App.load(repo, config_file, settings)
    with app.store(read_only=True) as store:
        run = find.named(store, run_id) if run_id else find.latest(store, app, unfinished=True)
    if run is None:
        if as_json:
            output.record({"type": "done", "run": None, "state": "done", "exit_code": 0})
        output.text("Nothing to resume: every run is done.")
        return 0
    if run.spec.source_kind == "bridge":
        from segue.cli import bridge_talk

        app, run = bridge_talk.reopen(run.id, config_file, settings)
        return bridge_talk.talk(app, run, output, wait_reminders=False, verbose=verbose)
    config = config_file or (Path(run.spec.config) if run.spec.config else None)
    app = App.load(Path(run.spec.repo), config, settings, stored=run.spec.settings)

    async def go_on() -> int:
        async with reopened(app, run) as ready:
            return await drive.show_session(ready, output, verbose)

    return asyncio.run(go_on())
