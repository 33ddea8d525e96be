"""Export the dataset to JSON lines, CSV or Parquet, batch by batch."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO

from segue.domain.errors import UsageError
from segue.ports import Store
from segue.store.rows import JSON_COLUMNS, TABLES

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
Batches = Iterable[list[dict[str, Any]]]
_TEXTS = JSON_COLUMNS | {
    *("id", "run_id", "source_key", "state", "note", "owner", "replayed", "key", "kind"),
    *("task", "phase", "build_phase", "agent", "model", "token"),
    *("step", "type", "topic", "consumed_by", "digest", "text"),
}


def export(store: Store, table: str, kind: str, file: BinaryIO) -> int:
    """Write a table (runs, steps, events, signals, prompts) as jsonl, csv or parquet; return its rows."""
    if table not in TABLES:
        raise UsageError(f"There is no table {table!r}.", hint=f"Known tables: {', '.join(TABLES)}")
    if kind not in _WRITERS:
        raise UsageError(f"There is no format {kind!r}.", hint=f"Known formats: {', '.join(_WRITERS)}")
    return _WRITERS[kind](TABLES[table].split(), store.table(table), file)


def _jsonl(_columns: list[str], batches: Batches, file: BinaryIO) -> int:
    count = 0
    for batch in batches:
        file.write("".join(json.dumps(row) + "\n" for row in batch).encode())
        count += len(batch)
    return count


def _csv(columns: list[str], batches: Batches, file: BinaryIO) -> int:
    count = 0
    text = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    for batch in batches:
        writer.writerows([_inert(_flat(name, row[name])) for name in columns] for row in batch)
        count += len(batch)
    text.flush()
    text.detach()  # the file stays the caller's
    return count


def _parquet(columns: list[str], batches: Batches, file: BinaryIO) -> int:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        message = "Parquet needs a library that is not installed."
        raise UsageError(message, hint="pip install 'segue[parquet]'") from error
    schema = pyarrow.schema(
        [(name, pyarrow.string() if name in _TEXTS else pyarrow.int64()) for name in columns]
    )
    count = 0
    with pyarrow.parquet.ParquetWriter(file, schema) as writer:
        for batch in batches:
            values = {name: [_utf8(_flat(name, row[name])) for row in batch] for name in columns}
            writer.write_table(pyarrow.table(values, schema=schema))
            count += len(batch)
    return count


def _flat(column: str, value: Any) -> Any:
    return json.dumps(value) if column in JSON_COLUMNS else value


def _inert(value: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula: a quote goes before what would begin one.

    Numbers are written as they are, also negative ones.
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _utf8(value: Any) -> Any:
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


_WRITERS: dict[str, Callable[[list[str], Batches, BinaryIO], int]] = {
    "jsonl": _jsonl,
    "csv": _csv,
    "parquet": _parquet,
}
