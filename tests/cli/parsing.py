"""Command lines as click reads them, without running anything."""

from __future__ import annotations

from contextlib import suppress

import click

from segue.cli.main import cli


def parse(words: list[str]) -> None:
    """Let click read the words, `segue` first, in the context that `segue` itself makes.

    A command remembers the names of its help option from the first context it is read in.
    """
    command: click.Command = cli
    context = click.Context(cli, info_name="segue", **cli.context_settings)
    rest = words[1:]
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        _, found, rest = command.resolve_command(context, rest)
        assert found is not None
        command = found
    # --help and --version end the reading; a command may be named without its argument, a group alone.
    with suppress(click.exceptions.Exit, click.MissingParameter, click.exceptions.NoArgsIsHelpError):
        command.make_context(command.name, rest, parent=context)
