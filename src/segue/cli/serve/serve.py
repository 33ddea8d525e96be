"""`segue serve`: show runs, tasks and reports in a browser."""

from __future__ import annotations

import click

from segue.cli.options import PORT, CommandSettings, options
from segue.cli.terminal.output import Printer


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=PORT, default=8787, show_default=True, help="The port; 0 picks a free one.")
@click.option("--open", "open_", is_flag=True, help="Open the page in your browser.")
@click.option("--link", is_flag=True, help="Print a new link to the page that is being served.")
@options("repo", "config", "database", "json", "quiet")
@click.pass_context
def serve(
    context: click.Context,
    host: str,
    port: int,
    open_: bool,
    link: bool,
    settings: CommandSettings,
    output: Printer,
) -> None:
    """Serve a page with live runs, tasks, steps and reports until Ctrl-C.

    Prints a link that works once, in one browser, within ten minutes. Everything stays on this machine.

    \b
    Examples:
      segue serve
      segue serve --open
      segue serve --link                         let another browser in
      segue serve --port 0 --json
    """
    import asyncio

    from segue.cli.terminal.output import announce_page, open_page
    from segue.web.app import link_to_running, page_keys
    from segue.web.app import serve as listen
    from segue.web.auth import is_shared

    app = settings.look()
    if link:
        chosen = context.get_parameter_source("port") is not click.core.ParameterSource.DEFAULT
        made = link_to_running(app, port if chosen else None)
        output.result({"link": made}, made)
        if open_:
            open_page(made)
        return

    def announce(made: str) -> None:
        announce_page(output, made, token_file=str(page_keys(app).token_file))
        if open_:
            open_page(made)

    if not is_shared(host):
        output.warn(
            f"The connection to {host} is not encrypted. A tunnel is: ssh -L 8787:127.0.0.1:8787 HOST"
        )
    asyncio.run(listen(app, host, port, announce))
