"""One sink for results: stdout is the result, stderr everything else; human, JSON or quiet."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from segue.domain.errors import SegueError
from segue.domain.plain import clean as clean

AGENT_VARIABLES = ("AI_AGENT", "AGENT", "CLAUDECODE", "VSCODE_AGENT", "CURSOR_AGENT")
"""When one of these is set, an agent reads the output: no animation, no colour."""


def one_line(text: str, width: int = 100) -> str:
    """The text on one line, cut to the width."""
    flat = " ".join(clean(text).split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def short_paths(text: str) -> str:
    """The text with the reader's own folder as ~."""
    home = str(Path.home()) if os.environ.get("HOME") else ""
    return text.replace(home + os.sep, f"~{os.sep}") if len(home) > 1 else text


def program() -> str:
    """How the reader can call Segue again: by name if the shell finds it, else by where it lies."""
    import shutil

    return "segue" if shutil.which("segue") else sys.argv[0]


def animated(stream: Any) -> bool:
    """Whether the stream is a terminal that a person looks at."""
    if os.environ.get("TERM") == "dumb" or any(os.environ.get(name) for name in AGENT_VARIABLES):
        return False
    return bool(stream.isatty())


@dataclass(frozen=True, slots=True)
class Output:
    """Where results go."""

    json: bool = False
    quiet: bool = False
    color: str = "auto"

    def data(self, data: Any) -> None:
        """One JSON document: the answer to a question."""
        click.echo(json.dumps({"schema": 1, "data": data}, ensure_ascii=False, default=str))

    def record(self, record: dict[str, Any]) -> None:
        """One JSON line of a stream."""
        click.echo(json.dumps(record, ensure_ascii=False, default=str))

    def text(self, text: str) -> None:
        """A result for people."""
        if not self.json:
            click.echo(text)

    def note(self, text: str) -> None:
        """Progress, hints and warnings: stderr."""
        if not self.quiet:
            click.echo(text, err=True)

    def warn(self, text: str) -> None:
        """A warning: shown even when quiet."""
        click.echo(text, err=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> None:
        """A table: drawn on a terminal, plain aligned columns otherwise."""
        cells = [[clean(str(cell)) for cell in row] for row in rows]
        if self.colored() and animated(sys.stdout):
            _rich_table(columns, cells, title, self.color)
        else:
            _plain_table(columns, cells, title)

    def colored(self) -> bool:
        """Whether colour is wanted on stdout."""
        if self.color == "auto":
            return animated(sys.stdout) and not os.environ.get("NO_COLOR")
        return self.color == "always"


def _plain_table(columns: Sequence[str], rows: list[list[str]], title: str) -> None:
    widths = [max(len(line[i]) for line in [list(columns), *rows]) for i in range(len(columns))]
    if title:
        click.echo(title)
    for line in [[name.upper() for name in columns], *rows]:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


STYLES = {"done": "green", "PASS": "green", "running": "cyan", "FAIL": "red", "PARTIAL": "yellow"}
STYLES |= {"failed": "red", "needs_human": "red", "stopped": "yellow", "parked": "yellow", "pending": "dim"}


def _rich_table(columns: Sequence[str], rows: list[list[str]], title: str, color: str) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, title=title or None, box=box.SIMPLE_HEAD, title_justify="left")
    for row in rows:
        table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
    Console(force_terminal=True if color == "always" else None).print(table)


def report_error(error: Exception, *, as_json: bool) -> int:
    """Say what happened, what was kept and what to do next; return the exit code."""
    if not isinstance(error, SegueError):
        return _unexpected(error)
    if as_json:
        body = {
            "message": error.message,
            "kept": error.kept,
            "hint": error.hint,
            "exit_code": error.exit_code,
        }
        click.echo(json.dumps({"schema": 1, "error": body}, ensure_ascii=False))
    click.echo(error_text(error), err=True)
    return error.exit_code


def error_text(error: SegueError) -> str:
    """The three lines of a failure."""
    lines = [f"segue: {clean(error.message)}"]
    if error.kept:
        lines.append(f"  Kept: {clean(error.kept)}")
    if error.hint:
        lines.append(f"  Next: {clean(error.hint)}")
    return "\n".join(lines)


def _unexpected(error: Exception) -> int:
    """A bug of ours: name it in one line; the traceback on request."""
    if os.environ.get("SEGUE_TRACEBACK"):
        raise error
    click.echo(
        f"segue: unexpected {type(error).__name__}: {clean(str(error))}\n"
        "  Kept: everything recorded so far is in the database.\n"
        "  Next: run the command again with SEGUE_TRACEBACK=1 and report what it prints.",
        err=True,
    )
    return 1


def announce_page(output: Output, link: str, open_: bool = False) -> None:
    """Say where the page is; the link lets one browser in, once."""
    if output.json:
        output.record({"type": "listening", "link": link})
    else:
        output.text(f"Look at it: {link}")
        output.note("The link works once, for one browser. Ctrl-C ends the page.")
    if open_:
        import webbrowser

        webbrowser.open(link)
