"""`segue plugins`: list everything that is installed for a socket."""

from __future__ import annotations

import click

from segue.cli.options import options
from segue.cli.terminal.output import Printer, clean


@click.command()
@options("json", "color")
def plugins(output: Printer) -> None:
    """List what is installed for each socket, built in or from other packages.

    A package adds a plug-in with an entry point in the group `segue.SOCKET`, for example `segue.sources`.
    Plug-ins of other packages are loaded to see whether they work.

    \b
    Examples:
      segue plugins
      segue plugins --json
    """
    from msgspec import to_builtins

    from segue.runtime.registry import list_installed

    found = list_installed()
    if output.json:
        output.data([to_builtins(plugin) for plugin in found])
        return
    columns = ["socket", "name", "package", "version", "where"]
    output.table(columns, [[getattr(plugin, name) for name in columns] for plugin in found])
    for plugin in found:
        if plugin.problem:
            output.warn(clean(plugin.problem))
