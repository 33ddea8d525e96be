"""Where runs, steps and events live: one journal, on SQLite or Postgres. `connect` is the way in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from segue.store.store import SqlStore


def connect(address: str | Path, read_only: bool = False) -> SqlStore:
    """Open the store at a `postgres://` URL or in an SQLite file, which is created and migrated if need be.

    With `read_only` nothing is created or changed: a database that does not exist yet has no runs.
    """
    from segue.store.store import SqlStore

    return SqlStore(address, read_only=read_only)
