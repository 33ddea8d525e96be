"""Connect to the database at an address."""

from __future__ import annotations

from pathlib import Path

from segue.store.address import is_postgres, sqlite_path
from segue.store.database import Database


def open_database(address: str | Path, read_only: bool = False) -> Database:
    """Connect to the database at an address: a `postgres://` URL, or an SQLite file."""
    if is_postgres(address):
        from segue.store.postgres import Postgres

        return Postgres(str(address))
    from segue.store.sqlite import Sqlite

    return Sqlite(sqlite_path(address), read_only=read_only)
