"""`segue mcp`: let other agents and editors start runs, watch them and read their proof."""

from __future__ import annotations

import click

from segue.cli.options import PORT, CommandSettings, options, refuse_unused
from segue.cli.terminal.output import Printer


@click.command()
@click.option("--http", is_flag=True, help="Serve over HTTP on this machine instead of stdin and stdout.")
@click.option(
    "--port", type=PORT, default=8790, show_default=True, help="With --http: the port; 0 picks a free one."
)
@click.option("--read-only", is_flag=True, help="Only answer questions: start, stop and decide nothing.")
@options("repo", "config", "database", "json", "quiet")
def mcp(http: bool, port: int, read_only: bool, settings: CommandSettings, output: Printer) -> None:
    """Serve the Model Context Protocol, so that other agents and editors can hand work to Segue.

    An agent or editor starts this command and talks to it over stdin and stdout. With --http it listens on
    this machine, and every request needs the token.
    Runs are started in the background and outlive the server. See `segue help mcp`.

    \b
    Examples:
      claude mcp add segue -- segue mcp          Claude Code starts it in your project
      segue mcp --read-only                      questions only
      segue mcp --http                           for clients that connect to an address
    """
    if not http:
        refuse_unused("the server listens on no port without --http", "port")
    import asyncio
    import os
    import sys
    from pathlib import Path

    from segue.parts.mcp.project import ServedProject
    from segue.parts.mcp.server import forget_host, serve_http, serve_stdio
    from segue.system.identity import is_in_job

    app = settings.look(say=False)
    os.chdir(app.repo)  # relative paths of callers start in the repository
    place = {name: value for name, value in settings.values.items() if value is not None}
    project = ServedProject(app.repo, settings.config and settings.config.absolute(), place, is_in_job())
    forget_host(app)

    def announce(url: str, token_file: Path) -> None:
        if output.json:
            output.record({"type": "listening", "url": url, "token_file": str(token_file)})
        else:
            output.text(f"listening on {url}")
            output.note(f"Token: {token_file}   Stop with Ctrl-C.")

    if http:
        asyncio.run(serve_http(project, read_only, port, announce))
        return
    if sys.stdin.isatty():
        output.note(
            "Waiting for an MCP client on stdin. Agents and editors start this command: `segue help mcp`"
        )
    asyncio.run(serve_stdio(project, read_only))
