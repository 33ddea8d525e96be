"""Ask the dataset in SQL: one question, or a prompt for many. Nothing can be changed."""

from __future__ import annotations

import csv
import importlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from segue.cli.terminal.output import Printer, error_text, is_interactive, one_line
from segue.domain.errors import StoreError, UsageError
from segue.store.database import QueryLimits
from segue.store.export import inert
from segue.store.flat import FLAT_TABLES, JOURNAL, PREFIX
from segue.store.rows import TABLES, by_name

if TYPE_CHECKING:
    from segue.store.store import Store


_CELL = 60
_HISTORY = 1000
_HELP = """.tables          list the tables
.schema TABLE    list its columns
.mode MODE       print rows as table, csv or json
.help            print this
.quit            leave, as Ctrl-D does
A question is one SELECT and ends with a semicolon."""


class SqlPrompt(Struct):
    """Asks questions and prints the answers."""

    store: Store
    output: Printer
    limits: QueryLimits
    kind: str = "table"

    def ask(self, sql: str) -> None:
        """Print the answer to one question."""
        wanted = self.limits.rows
        more = QueryLimits(wanted + 1, self.limits.seconds)
        names, found = self.store.answer(sql, limits=more)
        _PRINTERS[self.kind](self.output, names, found[:wanted])
        if len(found) > wanted:
            self.output.warn(
                f"Only the first {wanted} rows: ask with --rows for more, or use `segue db export`."
            )

    def command(self, line: str) -> bool:
        """Do what a line that begins with a dot says; returns False at the end."""
        word, _, rest = line.partition(" ")
        rest = rest.strip()
        match word:
            case ".quit" | ".exit":
                return False
            case ".help":
                self.output.text(_HELP)
            case ".tables":
                self.output.text(
                    "\n".join([PREFIX + name for name in FLAT_TABLES] + [JOURNAL + name for name in TABLES])
                )
            case ".schema":
                self._describe(rest)
            case ".mode" if rest in _PRINTERS:
                self.kind = rest
            case _:
                raise UsageError(f"There is no {line!r} here.", hint=".help lists what there is.")
        return True

    def _describe(self, name: str) -> None:
        flat, journal = FLAT_TABLES.get(name.removeprefix(PREFIX)), TABLES.get(name.removeprefix(JOURNAL))
        if flat is not None and not name.startswith(JOURNAL):
            rows = [(column.name, column.type, column.meaning) for column in flat.columns]
            self.output.table(("column", "type", "meaning"), rows)
        elif journal is not None:
            self.output.text("\n".join(journal.split()))
        else:
            raise UsageError(f"There is no table {name!r}.", hint=".tables lists them.")


def run_shell(store: Store, output: Printer, where: str, history: Path) -> None:
    """Read questions from the terminal, or from a pipe, where the first mistake is the end."""
    questions = SqlPrompt(store, output, QueryLimits(1000, 60.0))
    asked = sys.stdin.isatty() and is_interactive(sys.stderr)
    if asked:
        output.note(f"{where}, read-only. .help lists what there is besides SELECT.")
    with _remembering(history) if asked else nullcontext():
        for line in _statements(asked):
            try:
                if not _answer(questions, line):
                    return
            except (StoreError, UsageError) as error:
                if not asked:
                    raise
                click.echo(error_text(error), err=True)


def _answer(questions: SqlPrompt, line: str) -> bool:
    if line.startswith("."):
        return questions.command(line)
    questions.ask(line)
    return True


def _statements(asked: bool) -> Iterator[str]:
    """Yield questions, which may have several lines, and commands."""
    read = _from_terminal if asked else _from_pipe
    pending = ""
    while (line := read(bool(pending))) is not None:
        if not pending and line.strip().startswith("."):
            yield line.strip()
            continue
        pending += line + "\n"
        if pending.rstrip().endswith(";"):
            yield pending.strip()
            pending = ""
        elif not pending.strip():
            pending = ""
    if pending.strip():
        yield pending.strip()


def _from_terminal(more: bool) -> str | None:
    while True:
        try:
            return input("   ...> " if more else "segue> ")
        except EOFError:
            click.echo(err=True)
            return None
        except KeyboardInterrupt:
            click.echo("  (Ctrl-D or .quit leaves)", err=True)
            return ""


def _from_pipe(_more: bool) -> str | None:
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None


def _find_readline() -> Any:
    """Return the module, which not every system has."""
    try:
        return importlib.import_module("readline")
    except ImportError:
        return None


@contextmanager
def _remembering(history: Path) -> Iterator[None]:
    """Keep what was asked for the next time, where the terminal can."""
    readline = _find_readline()
    if readline is None:
        yield
        return
    with suppress(OSError):
        readline.read_history_file(history)
    readline.set_history_length(_HISTORY)
    try:
        yield
    finally:
        with suppress(OSError):
            os.close(os.open(history, os.O_CREAT | os.O_WRONLY, 0o600))
            readline.write_history_file(history)


def _print_table(output: Printer, names: list[str], found: list[tuple[Any, ...]]) -> None:
    if found:
        output.table(
            names, [["" if cell is None else one_line(str(cell), _CELL) for cell in row] for row in found]
        )
    else:
        output.note("No rows.")


def _print_csv(_output: Printer, names: list[str], found: list[tuple[Any, ...]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([[inert(cell) for cell in row] for row in found])
    click.echo(text.getvalue().encode(errors="backslashreplace").decode(), nl=False)


def _print_json(_output: Printer, names: list[str], found: list[tuple[Any, ...]]) -> None:
    rows = [json.dumps(row, default=str) for row in by_name(names, found)]
    click.echo("[" + ",\n ".join(rows) + "]")


_PRINTERS: dict[str, Callable[[Printer, list[str], list[tuple[Any, ...]]], None]] = {
    "table": _print_table,
    "csv": _print_csv,
    "json": _print_json,
}
