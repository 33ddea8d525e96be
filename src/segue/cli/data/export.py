"""Write tables of the dataset to files, a folder or stdout."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from segue.cli.terminal.output import Printer
from segue.domain.errors import UsageError
from segue.store.atif import export_atif
from segue.store.export import export
from segue.store.flat import FLAT_TABLES
from segue.system.files import check_way

if TYPE_CHECKING:
    from segue.store.store import Store


def export_one(store: Store, table: str, kind: str, out: Path | None, output: Printer) -> None:
    """Write one table to a file or to stdout."""
    if out is None:
        if kind == "parquet" and sys.stdout.isatty():
            raise UsageError(
                "Parquet is not for a terminal.",
                hint=f"Name a file: segue db export {table} … -o {table}.parquet",
            )
        export(store, table, kind, sys.stdout.buffer)
        return
    with replacing(out) as file:
        count = export(store, table, kind, file)
    output.note(f"{count} rows written to {out}")


def export_trajectories(store: Store, table: str | None, out: Path | None, output: Printer) -> None:
    """Write every attempt as a trajectory to a file or to stdout."""
    if table is not None:
        raise UsageError("ATIF has attempts, and no tables.", hint="Leave TABLE out")
    if out is None:
        export_atif(store, sys.stdout.buffer)
        return
    with replacing(out) as file:
        count = export_atif(store, file)
    output.note(f"{count} attempts written to {out}")


def export_all(store: Store, kind: str, out: Path | None, output: Printer) -> dict[str, int]:
    """Write every flat table into a folder, each to a file of its own; return how many rows each has."""
    if out is None:
        raise UsageError(
            "Several tables do not fit into one stream.",
            hint="Name a table, or a folder: segue db export -o dataset",
        )
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is not a folder.", hint="Name a folder for the tables.")
    out.mkdir(parents=True, exist_ok=True)
    counts = {}
    for name in FLAT_TABLES:
        with replacing(out / f"{name}.{kind}") as file:
            counts[name] = export(store, name, kind, file)
    output.note(f"{sum(counts.values())} rows in {len(counts)} tables written to {out}")
    return counts


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Write a file beside its place and move it there when it is complete."""
    check_way(path.parent)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}.", hint="Name another place."
        ) from error
    beside = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        beside.chmod(0o644)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
