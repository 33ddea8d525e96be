"""`segue config`: show the settings and where they come from."""

from __future__ import annotations

import json

import click

from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer


@click.group()
def config() -> None:
    """Show the settings and where they come from.

    \b
    Examples:
      segue config show
      segue config schema > segue.schema.json
    """


@config.command("show")
@options("repo", "config", "json", "color")
def show(settings: CommandSettings, output: Printer) -> None:
    """Print every setting with its value and origin.

    \b
    Examples:
      segue config show
      SEGUE_LIMITS__PHASE_TIMEOUT=600 segue config show --json
    """
    from segue.config.load import show as show_value

    loaded = settings.look().loaded
    rows = [(path, show_value(value), origin) for path, value, origin in loaded.rows()]
    data = [dict(zip(("setting", "value", "origin"), row, strict=True)) for row in rows]
    output.listing(data, ["setting", "value", "from"], rows)


@config.command("schema")
def schema() -> None:
    """Print the JSON Schema of the settings, for editors.

    \b
    Examples:
      segue config schema > segue.schema.json
    """
    from segue.config.part_tables import all_settings
    from segue.domain.options import options_schema

    click.echo(json.dumps(options_schema(all_settings()), indent=2))
