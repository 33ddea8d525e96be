"""`segue config`: list the settings, or print their schema."""

from __future__ import annotations

import json

import click

from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer, short_paths
from segue.domain.errors import UsageError


@click.group()
def config() -> None:
    """List the settings, with value and origin, or print their schema.

    \b
    Examples:
      segue config list
      segue config list limits.attempts
    """


@config.command("list")
@click.argument("word", required=False)
@click.option("--all", "every", is_flag=True, help="List also those that have their default.")
@options("repo", "config", "json", "color")
def list_(word: str | None, every: bool, settings: CommandSettings, output: Printer) -> None:
    """List the settings that somebody has set, with value and origin; with WORD, all whose name contains it.

    \b
    Examples:
      segue config list
      segue config list --all
      segue config list limits
      SEGUE_LIMITS__PHASE_TIMEOUT=600 segue config list timeout --json
    """
    from segue.config.feature_tables import list_settings
    from segue.config.load import show as show_value
    from segue.domain.text import suggest

    loaded = settings.look().loaded
    found = [row for row in loaded.rows() if word is None or word in row[0]]
    if word is not None and not found:
        near = suggest(word, [row[0] for row in loaded.rows()])
        raise UsageError(f"There is no setting {word!r}.{near}", hint="segue config list --all")
    meanings = {path: field.description for path, field in list_settings()}
    rows = [(path, show_value(value), origin, meanings.get(path, "")) for path, value, origin in found]
    if output.json:
        names = ("setting", "value", "origin", "meaning")
        output.data([dict(zip(names, row, strict=True)) for row in rows])
        return
    shown = rows if every or word is not None else [row for row in rows if row[2] != "default"]
    if shown:
        columns = ["setting", "value", "from", *(["meaning"] if word is not None else [])]
        output.table(
            columns,
            [(path, value, short_paths(of), *why[: len(columns) - 3]) for path, value, of, *why in shown],
        )
    if left := len(rows) - len(shown):
        others = f"{left} settings have their default" if shown else f"All {left} settings have their default"
        output.note(f"{others}: segue config list --all   What one means: segue config list NAME")


@config.command("schema")
def schema() -> None:
    """Print the JSON Schema of the settings, for editors.

    \b
    Examples:
      segue config schema > segue.schema.json
    """
    from segue.config.feature_tables import all_settings
    from segue.domain.options import options_schema

    click.echo(json.dumps(options_schema(all_settings()), indent=2))
