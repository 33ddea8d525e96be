"""Ask the dataset one question in SQL, and print the answer. Nothing can be changed."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from segue.cli.terminal.output import Printer, one_line
from segue.store.database import QueryLimits
from segue.store.export import inert
from segue.store.rows import by_name

if TYPE_CHECKING:
    from segue.store.store import Store

_CELL = 60


def ask(store: Store, sql: str, limits: QueryLimits, kind: str, output: Printer) -> None:
    """Print the answer to a question as a table, CSV or JSON."""
    names, found = store.answer(sql, limits=QueryLimits(limits.rows + 1, limits.seconds))
    _PRINTERS[kind](output, names, found[: limits.rows])
    if len(found) > limits.rows:
        output.warn(f"Only the first {limits.rows} rows: ask with --rows for more, or use `segue db export`.")


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
