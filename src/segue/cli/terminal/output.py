"""The one place that prints: results go to stdout, everything else to stderr."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from segue.cli.terminal.table import cut, draw, print_wrapped
from segue.domain.errors import SegueError
from segue.domain.text import clean as clean
from segue.system.programs import find_inside

AGENT_VARIABLES = ("AI_AGENT", "AGENT", "CLAUDECODE", "VSCODE_AGENT", "CURSOR_AGENT")
"""When one of these is set, an agent reads the output: print no animation and no colour."""

_HIDDEN = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
"""Bytes of a path that are no text, control characters, and what hides text or turns its direction."""


def one_line(text: str, width: int = 100) -> str:
    """Return the text on one line, cut to the width."""
    return cut(" ".join(clean(text).split()), width)


def short_paths(text: str) -> str:
    """Abbreviate the user's home folder to ~."""
    home = str(Path.home()) if os.environ.get("HOME") else ""
    return text.replace(home + os.sep, f"~{os.sep}") if len(home) > 1 else text


def cut_start(path: str, room: int) -> str:
    """Return as much of a path's end as there is room for."""
    return path if len(path) <= room else f"…{path[1 - room :]}"


def program() -> str:
    """Return how to call Segue in a shell: by name if it is on PATH, else as it was called."""
    if find_inside("segue"):
        return "segue"
    as_module = Path(sys.argv[0]).name == "__main__.py"
    return shlex.join([sys.executable, "-m", "segue"] if as_module else sys.argv[:1])


def is_interactive(stream: Any) -> bool:
    """Return whether the stream is a terminal that a person reads."""
    if os.environ.get("TERM") == "dumb" or any(os.environ.get(name) for name in AGENT_VARIABLES):
        return False
    return bool(stream.isatty())


def terminal_width() -> int | None:
    """Return the width of the terminal on stdout, or None if stdout is not one."""
    return shutil.get_terminal_size().columns if is_interactive(sys.stdout) else None


class Printer(Struct, frozen=True):
    """Prints a command's results for people or, with `json`, for programs."""

    json: bool = False
    quiet: bool = False
    color: str = "auto"

    def data(self, data: Any) -> None:
        """Print one JSON document: the complete answer."""
        click.echo(_to_json({"schema": 1, "data": data}))

    def record(self, record: dict[str, Any]) -> None:
        """Print one JSON line of a stream."""
        click.echo(_to_json(record))

    def result(self, data: Any, text: str) -> None:
        """Print the complete answer: `data` for programs, `text` for people."""
        if self.json:
            self.data(data)
        else:
            click.echo(clean(text))

    def text(self, text: str) -> None:
        """Print a result for people."""
        if not self.json:
            click.echo(clean(text))

    def painted(self, text: str) -> None:
        """Print a result that has colours and was cleaned before they were added."""
        if not self.json:
            click.echo(text)

    def note(self, text: str) -> None:
        """Print progress or a hint to stderr."""
        if not self.quiet:
            click.echo(clean(text), err=True)

    def warn(self, text: str) -> None:
        """Print a warning to stderr, even when quiet."""
        click.echo(clean(text), err=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print a table, wrapped on a terminal, with plain aligned columns otherwise."""
        cells = [[clean(str(cell)) for cell in row] for row in rows]
        if self.colored() and is_interactive(sys.stdout):
            print_wrapped(columns, cells, self.color)
        else:
            click.echo("\n".join(draw(columns, cells)))

    def listing(self, data: Any, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print the complete answer: `data` for programs, a table for people."""
        if self.json:
            self.data(data)
        else:
            self.table(columns, rows)

    def at_terminal(self) -> bool:
        """Return whether there is a person who can be asked."""
        return not self.json and sys.stdin.isatty() and is_interactive(sys.stderr)

    def colored(self) -> bool:
        """Return whether stdout gets colour."""
        if self.color == "auto":
            return is_interactive(sys.stdout) and not os.environ.get("NO_COLOR")
        return self.color == "always"


def report_error(error: Exception, *, as_json: bool) -> int:
    """Print what happened, what was kept and what to do next; return the exit code."""
    if not isinstance(error, SegueError):
        from segue.system.extras import explain_import
        from segue.system.files import explain_full_disk

        known = explain_full_disk(error) or explain_import(error)
        if known is None:
            return _report_bug(error)
        error = known
    if as_json:
        body = {
            "message": error.message,
            "kept": error.kept,
            "hint": error.hint,
            "exit_code": error.exit_code,
        }
        click.echo(_to_json({"schema": 1, "error": body}))
    click.echo(error_text(error), err=True)
    return error.exit_code


def error_text(error: SegueError) -> str:
    """Return the message of a failure, with `Kept:` and `Next:` lines where known."""
    lines = [f"segue: {clean(error.message)}"]
    if error.kept:
        lines.append(f"  Kept: {clean(error.kept)}")
    if error.hint:
        lines.append(f"  Next: {clean(error.hint)}")
    return "\n".join(lines)


def _report_bug(error: Exception) -> int:
    """Print a bug in one line; SEGUE_TRACEBACK shows the traceback. People paste both into reports."""
    from segue.runtime.registry import find_culprit
    from segue.system.redact import Redactor
    from segue.system.sensitive import secrets_of, user_secrets

    redact = Redactor(secrets_of(os.environ), later=user_secrets).text
    if os.environ.get("SEGUE_TRACEBACK"):
        import traceback

        click.echo(redact("".join(traceback.format_exception(error))), err=True, nl=False)
        return 1
    package = find_culprit(error)
    culprit = f" in the plug-in package {package}" if package else ""
    click.echo(
        f"segue: unexpected {type(error).__name__}{culprit}: {clean(redact(str(error)))}\n"
        "  Kept: everything recorded so far is in the database.\n"
        "  Next: run the command again with SEGUE_TRACEBACK=1 and report what it prints"
        + (f" to the authors of {package}." if package else "."),
        err=True,
    )
    return 1


def announce_page(output: Printer, link: str, **more: str) -> None:
    """Print the link to the page."""
    if output.json:
        output.record({"type": "listening", "link": link, **more})
    else:
        output.text(f"Open in a browser: {link}")
        output.note("The link works once, in one browser, within ten minutes. Ctrl-C stops the server.")


def open_page(link: str) -> None:
    """Open a link in the user's browser."""
    import webbrowser

    webbrowser.open(link)


def _to_json(value: Any) -> str:
    """Return JSON that is always UTF-8 and safe for a terminal: what is neither becomes escapes."""
    return escape_hidden(json.dumps(value, ensure_ascii=False, default=str))


def escape_hidden(text: str) -> str:
    """Return JSON or TOML with escapes for what a terminal would obey or not show; it means the same."""
    return _HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
