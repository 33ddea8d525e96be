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
    patience: float = 0.0,
    tell: Callable[[str], None] | None = None,
    redactor: Redactor | None = None,
    opened: Sequence[Database] = (),
) -> Store:
    """Open the store at a `postgres://` URL or in an SQLite file, which is created if need be.

    With `read_only` nothing is created or changed: a database that does not exist yet has no runs.
    A Postgres database that is away is waited for, `patience` seconds long while a run is open; with `tell`,
    which is called when that happens, also when connecting.
    What is written passes the `redactor`; without one, everything is stored as it is.
    Two connections that were `opened` already are used, and left open: one to ask and one to write.
    """
    from segue.store.store import Store

    return Store(address, read_only, patience, tell, redactor, opened)
