"""`segue task`: look at the tasks of a source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from segue.cli.options import make_output, options


@click.group()
def task() -> None:
    """Look at the tasks of a source."""


@task.command("list")
@click.argument("source", required=False)
@options("plan_format", "repo", "config", "json", "color")
def list_(
    source: str | None,
    repo: Path | None,
    config_file: Path | None,
    as_json: bool,
    color: str,
    **settings: Any,
) -> int:
    """Show what was understood of SOURCE (found as `segue run` finds it), and what was not.

    \b
    Examples:
      segue task list plan.md
      segue task list plan.md --plan-format lenient --json
    """
    import asyncio

    from segue.cli.output import one_line
    from segue.runtime.wiring import App

    output = make_output(as_json, color=color)
    app = App.load(repo, config_file, settings)
    plan = app.source(source, asyncio.run(_root(app.repo)))
    listing = plan.look()
    if as_json:
        names = ("key", "title", "status", "line", "story")
        tasks = [{name: getattr(task, name) for name in names} for task in listing.tasks]
        warnings = [{"line": notice.line, "text": notice.text} for notice in listing.notices]
        output.data({"source": plan.kind, "tasks": tasks, "warnings": warnings})
        return 0
    planned = any(task.build_phase for task in listing.tasks)
    rows = [
        (task.key, one_line(task.title, 70), task.status, task.build_phase if planned else task.line)
        for task in listing.tasks
    ]
    output.table(["task", "title", "status", "build phase" if planned else "line"], rows)
    for notice in listing.notices:
        output.warn(f"{plan.path}:{notice.line}: {notice.text}")
    return 0


async def _root(path: Path) -> Path:
    """The repository the path lies in, so that the state of the right pair is shown; else the path."""
    from segue.domain.errors import SegueError
    from segue.system.git.repository import Repository

    try:
        return (await Repository.open(path)).root
    except SegueError:
        return path


@task.command("accept")
@click.argument("key")
@click.option(
    "--run", "run_id", default=None, metavar="RUN", help="The run it belongs to (default: the newest)."
)
@options("repo", "config", "database", "json")
def accept(key: str, run_id: str | None, **given: Any) -> int:
    """Say that task KEY is done, although Segue could not prove it.

    \b
    Examples:
      segue task accept 3
      segue task accept T012 && segue resume
    """
    return _decide(key, run_id, "accepted by a person", skip=False, **given)


@task.command("skip")
@click.argument("key")
@click.option("--reason", required=True, help="Why it is not done.")
@click.option(
    "--run", "run_id", default=None, metavar="RUN", help="The run it belongs to (default: the newest)."
)
@options("repo", "config", "database", "json")
def skip(key: str, reason: str, run_id: str | None, **given: Any) -> int:
    """Leave task KEY out; the following ones go on without it.

    \b
    Examples:
      segue task skip 3 --reason "done by hand elsewhere"
    """
    return _decide(key, run_id, f"skipped: {reason}", skip=True, **given)


def _decide(
    key: str,
    run_id: str | None,
    reason: str,
    *,
    skip: bool,
    repo: Path | None,
    config_file: Path | None,
    as_json: bool,
    **settings: Any,
) -> int:
    import asyncio

    from segue.cli import find
    from segue.domain.errors import UsageError
    from segue.runtime.overrides import decide
    from segue.runtime.wiring import App

    output = make_output(as_json)
    app = App.load(repo, config_file, settings)
    with app.store(read_only=True) as store:
        run = find.named(store, run_id) if run_id else find.latest(store, app)
    if run is None:
        raise UsageError("There is no run yet.", hint="segue run SOURCE")
    config = config_file or (Path(run.spec.config) if run.spec.config else None)
    app = App.load(Path(run.spec.repo), config, settings, stored=run.spec.settings)
    asyncio.run(decide(app, run, key, reason, skip=skip))
    if as_json:
        output.data({"run": run.id, "task": key, "state": "skipped" if skip else "done", "reason": reason})
    else:
        output.text(f"Task {key} is {'skipped' if skip else 'done'} ({reason}).")
        output.note(f"Go on with: segue resume {run.id}")
    return 0
