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
@click.argument("source")
@options("plan_format", "repo", "config", "json", "color")
def list_(
    source: str, repo: Path | None, config_file: Path | None, as_json: bool, color: str, **settings: Any
) -> int:
    """Show what was understood of SOURCE, and what was not.

    \b
    Examples:
      segue task list plan.md
      segue task list plan.md --plan-format lenient --json
    """
    import asyncio

    from segue.app import App
    from segue.cli.output import one_line

    output = make_output(as_json, color=color)
    app = App.load(repo, config_file, settings)
    plan = app.planfile(Path(source), asyncio.run(_root(app.repo)))
    listing = plan.look()
    if as_json:
        names = ("key", "title", "status", "line", "story")
        tasks = [{name: getattr(task, name) for name in names} for task in listing.tasks]
        warnings = [{"line": notice.line, "text": notice.text} for notice in listing.notices]
        output.data({"source": plan.kind, "tasks": tasks, "warnings": warnings})
        return 0
    rows = [(task.key, one_line(task.title, 70), task.status, task.line) for task in listing.tasks]
    output.table(["task", "title", "status", "line"], rows)
    for notice in listing.notices:
        output.warn(f"{source}:{notice.line}: {notice.text}")
    return 0


async def _root(path: Path) -> Path:
    """The repository the path lies in, so that the state of the right pair is shown; else the path."""
    from segue.domain.errors import SegueError
    from segue.system.git import Repository

    try:
        return (await Repository.open(path)).root
    except SegueError:
        return path
