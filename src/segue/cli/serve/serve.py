"""`segue serve`: show runs, tasks and reports in a browser."""

from __future__ import annotations

import click

from segue.cli.options import PORT, CommandSettings, options
from segue.cli.terminal.output import Printer


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=PORT, default=8787, show_default=True, help="The port; 0 picks a free one.")
@click.option("--open", "open_", is_flag=True, help="Open the page in your browser.")
@options("repo", "config", "database", "json", "quiet")
def serve(host: str, port: int, open_: bool, settings: CommandSettings, output: Printer) -> None:
    """Serve a page with live runs, tasks, steps and reports until Ctrl-C.

    Prints a link that works once, in one browser. Everything stays on this machine.

    \b
    Examples:
      segue serve
      segue serve --open
      segue serve --port 0 --json
    """
    import asyncio

    from segue.cli.terminal.output import announce_page
    from segue.web.app import serve as listen

    asyncio.run(listen(settings.look(), host, port, lambda link: announce_page(output, link, open_)))
