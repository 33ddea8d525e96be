"""The store of runs, steps and events: one journal, on SQLite or Postgres. `connect` opens it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from segue.store.database import Database
    from segue.store.store import Store
    from segue.system.redact import Redactor


def connect(
    address: str | Path,
    read_only: bool = False,
    spools: Path | None = None,
    patience: float = 0.0,
    tell: Callable[[str], None] | None = None,
    redactor: Redactor | None = None,
    opened: Sequence[Database] = (),
) -> Store:
    """Open the store at a `postgres://` URL or in an SQLite file, which is created and migrated if need be.

    With `read_only` nothing is created or changed: a database that does not exist yet has no runs.
    With a folder `spools`, runs continue for `patience` seconds without their Postgres database: writes are
    buffered there, and replayed when the database is back or the run is opened again. With `tell`, which is
    called when that happens, connecting waits as long for a database that is away; without `spools`, so do
    writes, for two minutes.
    What is written passes the `redactor`; without one, everything is stored as it is.
    Two connections to an up-to-date database that were `opened` already are used, and left open: one to ask
    and one to write.
    """
    from segue.store.store import Store

    return Store(
        address,
        read_only=read_only,
        spools=spools,
        patience=patience,
        tell=tell,
        redactor=redactor,
        opened=opened,
    )
