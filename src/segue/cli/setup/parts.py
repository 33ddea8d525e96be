"""`segue parts` and `segue plugins`: list the parts of Segue, and what is installed for a socket."""

from __future__ import annotations

import click

from segue.cli.options import options
from segue.cli.terminal.output import Printer, clean


@click.command()
@options("json", "color")
def parts(output: Printer) -> None:
    """List the parts: features that Segue works without, with the commands and settings of each.

    All come with Segue; one that is not wanted can be deleted with its folder. Other packages add
    parts with an entry point in the group `segue.parts`: `segue help python`.

    \b
    Examples:
      segue parts
      segue parts --json
    """
    from segue.domain.installed import BUILT_IN, is_installed, other_parts

    found = [(part, "segue", is_installed(part.name)) for part in BUILT_IN.values()]
    found += [(other.part, other.package, True) for other in other_parts() if other.part is not None]
    data = [
        {
            "name": part.name,
            "summary": part.summary,
            "package": package,
            "installed": installed,
            "commands": list(part.commands),
            "settings": list(part.tables),
            "events": list(part.events),
            "sockets": {socket: list(variants) for socket, variants in part.sockets.items()},
            "extras": list(part.extras),
            "topics": list(part.topics),
        }
        for part, package, installed in found
    ]
    rows = [
        (
            part.name,
            "yes" if installed else "no",
            ", ".join(part.commands),
            ", ".join(f"[{table}]" for table in part.tables),
            part.summary,
        )
        for part, _, installed in found
    ]
    output.listing(data, ["part", "installed", "commands", "settings", "what for"], rows)
    for other in other_parts():
        if other.problem:
            output.warn(clean(other.problem))


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
