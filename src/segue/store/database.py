"""The interface of a database, and transactions that survive a broken connection."""

from __future__ import annotations

import contextlib
import itertools
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct

from segue.domain.amounts import describe_until
from segue.domain.errors import StoreAway, StoreError
from segue.store.address import is_postgres, sqlite_path
from segue.store.encoding import DLE, escape, unescape

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
Row = tuple[Any, ...]

RETRY_PAUSES = (0.1, 0.3, 1.0, 3.0, 5.0, 10.0)
"""Seconds between attempts to reconnect: in total less than a lease lasts."""
LONG_PAUSES = (*RETRY_PAUSES, *(10.0,) * 12)
"""The same for who can only wait: after its lease, whoever claims the run first drives it."""

EVERY_SECOND = 1.0
"""How often waiters look anyway: a dead process announces nothing, and neither do some poolers."""

ASK_HINT = (
    "The names of tables begin with segue_ or orchestrator_; docs/reference/data.md lists them with their "
    "columns."
)

_LOG = logging.getLogger("segue.store")
_FIRST_PAUSES = (0.1, 0.3)
_NAP = 0.5


Statement = tuple[str, Sequence[object]]
"""One change to the database, and its values."""


class QueryLimits(Struct, frozen=True):
    """How much a question to the dataset may cost, when a program asks it on behalf of others."""

    rows: int
    seconds: float


class Disconnected(StoreError):
    """The connection broke: the transaction may or may not have been committed."""


class LongWait:
    """The pauses of a command that waits for its database, and says so."""

    def __init__(self, seconds: float, tell: Callable[[str], None]) -> None:
        self._seconds, self._tell = seconds, tell
        self._told = False

    def __iter__(self) -> Iterator[float]:
        deadline = time.monotonic() + self._seconds
        self._told = False
        for pause in itertools.chain(_FIRST_PAUSES, itertools.repeat(_NAP)):
            if time.monotonic() > deadline:
                return
            yield pause

    def say(self, error: Disconnected) -> None:
        """Say once what is waited for; raises KeyboardInterrupt when nobody wants to wait any more."""
        import asyncio

        with contextlib.suppress(RuntimeError):  # there is no event loop, which would take Ctrl-C for itself
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise KeyboardInterrupt
        if not self._told:
            until = describe_until(time.time() + self._seconds)
            self._tell(f"Waiting for the database {until}: {error.message}")
        self._told = True


class Watch:
    """Hears of changes until it is stopped."""

    def __init__(self, stop: Callable[[], None] = lambda: None, pause: float = EVERY_SECOND) -> None:
        self.stop = stop
        self.pause = pause
        """Seconds after which to look, though nothing was heard."""
        self.is_lost = False
        """Whether the connection broke, so that nothing is heard any more."""


class Executes(Protocol):
    """Executes statements, in a database or into a buffer."""

    def execute(self, sql: str, *values: object) -> list[Row]:
        """Run one statement and return its rows."""


class Database(Protocol):
    """One connection. SQL is written once: `?` is a value, `{now}` the clock, `{for_update}` a row lock."""

    poll_seconds: float
    """How often it makes sense to poll the version."""
    pauses: Sequence[float] | LongWait
    """Seconds between attempts after the connection broke."""

    def execute(self, sql: str, *values: object) -> list[Row]:
        """Run one statement and return its rows."""

    def change(self, sql: str, *values: object) -> int:
        """Run one statement and return the number of rows it changed."""

    def append(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Insert many rows as fast as the database can."""

    def read(
        self, sql: str, values: Sequence[object], limits: QueryLimits | None = None
    ) -> tuple[list[str], list[Row]]:
        """Run a user's statement, read-only; return the names of its columns and its rows."""

    def stream(self, sql: str, size: int, *values: object) -> Iterator[list[Row]]:
        """Run a query and yield its rows in batches."""

    def transaction(self) -> AbstractContextManager[None]:
        """Commit at the end, roll back on any exception. SQLite allows one writer at a time."""

    def begin_at_once(self) -> bool:
        """Begin the next transaction already, if that needs no waiting; return whether it did."""

    def roll_back(self) -> None:
        """Undo a transaction that was begun and not entered."""

    def lock(self, name: str) -> None:
        """Take a named lock until the transaction ends."""

    def announce(self, topic: str = "") -> None:
        """Wake those who watch for the topic, in all processes, once the transaction is committed.

        A topic is the id of a run, or the name of something that many wait for; empty: everything.
        """

    def watch(self, loop: asyncio.AbstractEventLoop, wake: Callable[[str], None]) -> Watch:
        """Call `wake` with the topic of every change, until the watch is stopped."""

    def version(self) -> int:
        """Return a number that changes when another connection has written."""

    def has_table(self, name: str) -> bool:
        """Return whether the table exists."""

    def dialect(self, statement: str) -> str:
        """Translate a statement of the schema into this database's SQL; empty if it does not apply here."""

    def close(self) -> None:
        """Close the connection."""


def open_database(address: str | Path, read_only: bool = False) -> Database:
    """Connect to the database at an address."""
    if is_postgres(address):
        from segue.store.postgres import Postgres

        return Postgres(str(address))
    from segue.store.sqlite import Sqlite

    return Sqlite(sqlite_path(address), read_only=read_only)


def transact(database: Database, work: Callable[[bool], T]) -> T:
    """Do the work in a transaction; repeat it if the connection breaks.

    The work's argument is True for a repetition: the first attempt may have been committed.
    """

    def attempt(again: bool) -> T:
        with database.transaction():
            return work(again)

    return _persist(database, attempt)


def ask(database: Database, sql: str, *values: object) -> list[Row]:
    """Run a query; repeat it if the connection breaks."""
    return _persist(database, lambda _again: database.execute(sql, *values))


def look(
    database: Database, sql: str, values: Sequence[object], limits: QueryLimits | None = None
) -> tuple[list[str], list[Row]]:
    """Run a user's read-only query; repeat it if the connection breaks."""
    return _persist(database, lambda _again: database.read(sql, values, limits))


def _persist(database: Database, attempt: Callable[[bool], T]) -> T:
    return persist(database.pauses, attempt)


def persist(pauses: Sequence[float] | LongWait, attempt: Callable[[bool], T]) -> T:
    """Repeat an attempt after each of the pauses, until the database can be reached."""
    again = False
    for pause in pauses:
        try:
            return attempt(again)
        except Disconnected as error:
            again = True
            _LOG.info("Trying again in %s s: %s", pause, error.message)
            if isinstance(pauses, LongWait):
                pauses.say(error)
            time.sleep(pause)
    try:
        return attempt(True)
    except Disconnected as error:
        if isinstance(pauses, LongWait):
            raise StoreAway(error.message, kept=error.kept, hint=error.hint) from error
        raise


def escape_values(values: Sequence[object]) -> Row:
    """Return values as a database can store them: see `encoding.escape`."""
    return tuple(escape(value) if isinstance(value, str) else value for value in values)


def unescape_row(row: Row) -> Row:
    """Return a row as it was before `escape_values`."""
    return tuple([unescape(value) if isinstance(value, str) and DLE in value else value for value in row])
