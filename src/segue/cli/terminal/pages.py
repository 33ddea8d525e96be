"""Show a page of text: in a pager on a terminal, as it is otherwise."""

from __future__ import annotations

import sys

import click

from segue.cli.terminal.output import is_interactive


def show_page(text: str, *, markdown: bool) -> None:
    """Print a page; on a terminal, Markdown is set and a pager scrolls."""
    if not is_interactive(sys.stdout):
        click.echo(text)
        return
    click.echo_via_pager(_render(text) if markdown else text, color=True)


def _render(text: str) -> str:
    from io import StringIO

    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(file=StringIO(), force_terminal=True, width=min(Console().width, 100))
    console.print(Markdown(text, hyperlinks=False))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()
