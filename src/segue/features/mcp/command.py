"""`segue mcp`: let other agents and editors start runs, watch them and read their proof."""

from __future__ import annotations

import click

from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer


@click.command()
@click.option("--read-only", is_flag=True, help="Only answer questions: start, stop and decide nothing.")
@options("repo", "config", "database", "quiet")
def mcp(read_only: bool, settings: CommandSettings, output: Printer) -> None:
    """Serve the Model Context Protocol, so that other agents and editors can hand work to Segue.

    An agent or editor starts this command and talks to it over stdin and stdout.
    Runs are started in the background and outlive the server. See `docs/guides/mcp.md`.

    \b
    Examples:
      claude mcp add segue -- segue mcp          Claude Code starts it in your project
      segue mcp --read-only                      questions only
    """
    import asyncio
    import os
    import sys

    from segue.features.mcp.project import ServedProject
    from segue.features.mcp.server import forget_host, serve_stdio
    from segue.system.identity import is_in_job

    app = settings.look(say=False)
    os.chdir(app.repo)  # relative paths of callers start in the repository
    place = {name: value for name, value in settings.values.items() if value is not None}
    project = ServedProject(app.repo, settings.config and settings.config.absolute(), place, is_in_job())
    forget_host(app)

    if sys.stdin.isatty():
        output.note(
            "Waiting for an MCP client on stdin. Agents and editors start this command: `docs/guides/mcp.md`"
        )
    asyncio.run(serve_stdio(project, read_only))
