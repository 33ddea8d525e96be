"""The flat tables of the dataset: their columns, types and meanings. The views are in `views.sql`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, cast

from msgspec import Struct

ColumnType = Literal["text", "integer", "real", "boolean", "instant", "json"]

PREFIX = "segue_"
"""How the names of the views begin, beside the journal: no table of the user's is called so."""


class DatasetColumn(Struct, frozen=True):
    """One column: its name, the type of its values, and what they mean."""

    name: str
    type: ColumnType
    meaning: str


class DatasetTable(Struct, frozen=True):
    """One flat table."""

    name: str
    about: str
    columns: tuple[DatasetColumn, ...]

    @property
    def view(self) -> str:
        """The name of its view in the database."""
        return PREFIX + self.name


def _read(text: str) -> dict[str, DatasetTable]:
    """Return the tables that the text describes: a head `[name] about`, and a line for each column."""
    tables = {}
    for part in text.split("\n[")[1:]:
        head, *lines = part.splitlines()
        name, _, about = head.partition("] ")
        columns = []
        for line in filter(None, lines):
            column, _, meaning = line.partition(": ")
            label, kind = column.split()
            columns.append(DatasetColumn(label, cast("ColumnType", kind), meaning))
        tables[name] = DatasetTable(name, about, tuple(columns))
    return tables


FLAT_TABLES = _read(Path(__file__).with_name("dataset.txt").read_text(encoding="utf-8"))
"""Every flat table by its name."""

JOURNAL = "orchestrator_"
"""How the names of the journal's own tables begin."""

_SHORT = ("steps", "events", "signals")
EXPORTED = (*FLAT_TABLES, *_SHORT, *(JOURNAL + name for name in ("runs", *_SHORT, "prompts")))
"""The names of everything that can be exported: flat tables first, then the journal's own."""
