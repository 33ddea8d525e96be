"""`segue demo`: a whole run in a throw-away repository, without keys."""

from __future__ import annotations

from pathlib import Path

import click

from segue.cli.options import options


@click.command()
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Where to put it (default: a new temporary folder).",
)
@options("json", "color")
def demo(folder: Path | None, as_json: bool, color: str) -> int:
    """See a whole run: a small plan, the simulated agent, real commits, real data.

    One task fails its first attempt and is tried again, one meets a usage limit and waits for it to end.

    \b
    Examples:
      segue demo
      segue demo --dir /tmp/segue-demo
    """
    import asyncio

    from segue.cli import demo_plan

    return asyncio.run(demo_plan.show(folder, as_json, color))
