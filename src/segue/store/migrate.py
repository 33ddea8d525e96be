"""Migrate a database to the schema of this version, also when several processes try at once."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from segue.domain.errors import StoreError
from segue.store.database import Database

VERSION = 3
"""The number of the newest file under `migrations/`."""

TABLE = "orchestrator_migrations"
CREATE = f"CREATE TABLE IF NOT EXISTS {TABLE} (version integer PRIMARY KEY, name text, applied bigint)"
_WORD = re.compile(r"\{(number|instant) ([\w.]+)([\w ]*)\}")


def version_of(database: Database) -> int:
    """Return the number of the last migration applied; 0 for a database without a journal."""
    if not database.has_table(TABLE):
        return 0
    return int(database.execute(f"SELECT coalesce(max(version), 0) FROM {TABLE}")[0][0])  # noqa: S608


def migrate(database: Database) -> list[str]:
    """Apply the missing migrations and return their names."""
    if refuse_newer(version_of(database)) == VERSION:
        return []
    with database.transaction():
        database.lock("migrations")
        database.execute(CREATE)
        return [apply(database, name) for name in scripts()[version_of(database) :]]


def refuse_newer(version: int) -> int:
    """Return the version, or raise if only a newer Segue understands it."""
    if version > VERSION:
        raise StoreError(
            f"The database has version {version}, this Segue knows versions up to {VERSION}.",
            hint="Update Segue: pip install --upgrade segue",
        )
    return version


def scripts() -> list[str]:
    """Return the names of all migrations, in order."""
    from importlib.resources import files

    names = (entry.name for entry in (files("segue.store") / "migrations").iterdir())
    return sorted(name for name in names if name.endswith(".sql"))


def statements(name: str) -> list[str]:
    """Return the statements of a migration, before they are translated for a database."""
    from importlib.resources import files

    text = (files("segue.store") / "migrations" / name).read_text(encoding="utf-8")
    parts = re.sub(r"(?m)^--.*\n", "", text).split(";\n")
    return [part.strip() for part in parts if part.strip()]


def number_of(name: str) -> int:
    """Return the version that a migration leads to."""
    return int(name.split("_")[0])


def apply(database: Database, name: str) -> str:
    """Apply one migration, record it and return its name. Runs inside a transaction."""
    for part in statements(name):
        if statement := database.dialect(part):
            database.execute(statement)
    applied = int(time.time() * 1000)
    database.execute(f"INSERT INTO {TABLE} VALUES (?, ?, ?)", number_of(name), name, applied)  # noqa: S608
    return name


def words(statement: str, number: Callable[[str, list[str]], str], instant: Callable[[str], str]) -> str:
    """Replace `{number column key …}` and `{instant column}`, which the databases write differently."""

    def put(match: re.Match[str]) -> str:
        return instant(match[2]) if match[1] == "instant" else number(match[2], match[3].split())

    return _WORD.sub(put, statement)


def in_postgres(statement: str) -> str:
    """Translate a statement of a migration into Postgres' SQL."""
    return words(statement, _number, lambda column: f"to_timestamp({column} / 1000.0)")


def _number(column: str, path: list[str]) -> str:
    place = "->".join([column, *(f"'{key}'" for key in path)])
    return f"CASE WHEN jsonb_typeof({place}) = 'number' THEN CAST({place} #>> '{{}}' AS numeric) END"
