"""`segue status`: show runs, or one run with its tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from segue.cli.options import make_output, options


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("-n", "--limit", default=20, show_default=True, help="How many runs to list.")
@options("repo", "config", "database", "json", "color")
def status(
    run_id: str | None,
    limit: int,
    repo: Path | None,
    config_file: Path | None,
    as_json: bool,
    color: str,
    **settings: Any,
) -> int:
    """List the runs, or show the tasks of RUN (`last` for the newest).

    \b
    Examples:
      segue status
      segue status last
      segue status 20261115-0219 --json
    """
    from segue.cli import find, show
    from segue.cli.task_table import task_table
    from segue.runtime.wiring import App
    from segue.store.projections import task_views

    output = make_output(as_json, color=color)
    app = App.load(repo, config_file, settings)
    with app.store(read_only=True) as store:
        if run_id is None:
            return _list(store.runs(limit=limit), output)
        run = find.latest(store, app) if run_id == "last" else find.named(store, run_id)
        if run is None:
            if as_json:
                output.data(None)
            output.text(_NONE)
            return 0
        steps = store.steps(run.id)
        views = task_views(run, steps)
    if as_json:
        output.data(show.run_data(run, views))
        return 0
    title = f"Run {run.id}: {show.state_of(run)} · {run.spec.agent} · {run.place}"
    task_table(output, views, steps, title)
    if run.note:
        output.text(run.note)
    for view in views:
        if view.state == "needs_human":
            output.text(f"Task {view.key}: {view.reason}")
    return 0


_NONE = "No runs yet. Try: segue demo"


def _list(runs: list[Any], output: Any) -> int:
    from segue.cli import show

    if output.json:
        output.data([{k: v for k, v in show.run_data(run, []).items() if k != "tasks"} for run in runs])
        return 0
    if not runs:
        output.text(_NONE)
        return 0
    rows = [
        (
            run.id,
            show.state_of(run),
            run.spec.agent,
            Path(run.spec.source).name,
            run.spec.repo,
            show.moment(run.created),
        )
        for run in runs
    ]
    output.table(["run", "state", "agent", "source", "repository", "started"], rows)
    return 0
