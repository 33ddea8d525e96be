"""Export the dataset to JSON lines, CSV or Parquet, batch by batch."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, BinaryIO

from segue.domain.errors import UsageError
from segue.store.flat import EXPORTED, FLAT_TABLES, JOURNAL, ColumnType
from segue.store.rows import JSON_COLUMNS, TABLES
from segue.system.extras import missing_extra

if TYPE_CHECKING:
    from segue.store.store import Store


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_GROUP_ROWS = 20_000
_GROUP_CHARS = 16 * 1024**2
"""A group of rows in a Parquet file is written when it has so many rows or characters: memory stays flat."""

Batches = Iterable[list[dict[str, Any]]]
Columns = Sequence[tuple[str, ColumnType]]
_TEXTS = {
    *("id", "run_id", "source_key", "state", "note", "owner", "replayed", "key", "kind"),
    *("task", "phase", "build_phase", "agent", "model", "token"),
    *("step", "type", "topic", "consumed_by", "digest", "text"),
}


def export(store: Store, table: str, kind: str, file: BinaryIO) -> int:
    """Write a table as jsonl, csv or parquet; return its rows.

    A flat table has a short name; a table of the journal its full one, or a short one that is not taken.
    """
    if table not in EXPORTED:
        raise UsageError(f"There is no table {table!r}.", hint=f"Known tables: {', '.join(EXPORTED)}")
    if kind not in WRITERS:
        raise UsageError(f"There is no format {kind!r}.", hint=f"Known formats: {', '.join(WRITERS)}")
    if flat := FLAT_TABLES.get(table):
        columns: Columns = [(column.name, column.type) for column in flat.columns]
        name = flat.view
    else:
        name = table.removeprefix(JOURNAL)
        columns = [(column, _type(column)) for column in TABLES[name].split()]
    return WRITERS[kind](columns, store.table(name, as_text=kind != "jsonl"), file)


def _type(column: str) -> ColumnType:
    if column in JSON_COLUMNS:
        return "json"
    return "text" if column in _TEXTS else "integer"


def _jsonl(_columns: Columns, batches: Batches, file: BinaryIO) -> int:
    count = 0
    for batch in batches:
        file.write("".join(json.dumps(row, default=_instant) + "\n" for row in batch).encode())
        count += len(batch)
    return count


def _csv(columns: Columns, batches: Batches, file: BinaryIO) -> int:
    count = 0
    text = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", newline="")
    writer = csv.writer(text)
    writer.writerow([name for name, _ in columns])
    for batch in batches:
        writer.writerows([inert(_cell(row[name])) for name, _ in columns] for row in batch)
        count += len(batch)
    text.flush()
    text.detach()  # the file stays the caller's
    return count


def _parquet(columns: Columns, batches: Batches, file: BinaryIO) -> int:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise missing_extra("Parquet needs a library that is not installed.", "parquet") from error
    types = {
        **dict.fromkeys(("text", "json"), pyarrow.string()),
        "integer": pyarrow.int64(),
        "real": pyarrow.float64(),
        "boolean": pyarrow.bool_(),
        "instant": pyarrow.timestamp("ms", tz="UTC"),
    }
    schema = pyarrow.schema([(name, types[kind]) for name, kind in columns])
    count = 0
    with pyarrow.parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for group in _groups(columns, batches):
            try:
                table = pyarrow.table(group, schema=schema)
            except UnicodeEncodeError:
                table = pyarrow.table(
                    {name: list(map(_utf8, found)) for name, found in group.items()}, schema=schema
                )
            writer.write_table(table)
            count += table.num_rows
    return count


def _groups(columns: Columns, batches: Batches) -> Iterator[dict[str, list[Any]]]:
    """Yield the rows by column, many at once."""
    group: dict[str, list[Any]] = {name: [] for name, _ in columns}
    rows = size = 0
    for batch in batches:
        for name, _ in columns:
            values = [row[name] for row in batch]
            group[name] += values
            size += sum(len(value) for value in values if isinstance(value, str))
        rows += len(batch)
        if rows >= _GROUP_ROWS or size >= _GROUP_CHARS:
            yield group
            group, rows, size = {name: [] for name, _ in columns}, 0, 0
    if rows:
        yield group


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return _instant(value) if isinstance(value, datetime) else value


def _instant(value: Any) -> str:
    assert isinstance(value, datetime)
    return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def inert(value: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula: a quote goes before what would begin one.

    Numbers are written as they are, also negative ones.
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _utf8(value: Any) -> Any:
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


WRITERS: dict[str, Callable[[Columns, Batches, BinaryIO], int]] = {
    "jsonl": _jsonl,
    "csv": _csv,
    "parquet": _parquet,
}
"""The formats of files."""
