"""Options that several commands share, each declared once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from segue.cli.terminal.output import Printer


def options(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add shared options by name. The command gets `--json`, `--quiet` and `--color` as one `output`."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def call(
            *args: Any, as_json: bool = False, quiet: bool = False, color: str = "auto", **rest: Any
        ) -> Any:
            return command(*args, output=Printer(as_json, quiet or as_json, color), **rest)

        decorated = call
        for name in reversed(names):
            decorated = SHARED[name](decorated)
        return decorated

    return add


SHARED: dict[str, Callable[[Any], Any]] = {
    "json": click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout."),
    "quiet": click.option("-q", "--quiet", is_flag=True, help="Print only results and errors."),
    "verbose": click.option(
        "-v", "--verbose", is_flag=True, help="Print a line for everything the agent says and does."
    ),
    "color": click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="When to use colour; NO_COLOR is respected.",
    ),
    "repo": click.option(
        "-C",
        "--repo",
        type=click.Path(path_type=Path, file_okay=False),
        default=None,
        help="The repository to work in (default: the current folder).",
    ),
    "config": click.option(
        "--config",
        "config_file",
        type=click.Path(path_type=Path, dir_okay=False),
        default=None,
        help="Use this file instead of the project's segue.toml.",
    ),
    "database": click.option(
        "--database-url",
        metavar="URL",
        default=None,
        help="The Postgres URL or SQLite file that stores the runs.",
    ),
    "plan_format": click.option(
        "--plan-format",
        type=click.Choice(["strict", "lenient"]),
        default=None,
        help="lenient also reads headings such as `### Task 3: Title`.",
    ),
}
