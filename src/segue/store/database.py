"""The interface of a database, and transactions that are repeated when the connection breaks."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct

from segue.domain.amounts import describe_until
from segue.domain.errors import StoreAway
from segue.store.encoding import escape
from segue.system.retry import pauses

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
Row = tuple[Any, ...]
Statement = tuple[str, Sequence[object]]
"""One change to the database, and its values."""

RETRY_SECONDS = 20.0
"""How long a broken connection is tried again: less than a lease lasts."""
EVERY_SECOND = 1.0
ASK_HINT = (
    "The names of tables begin with segue_ or orchestrator_; docs/reference/data.md lists them with their "
    "columns."
)

_LOG = logging.getLogger("segue.store")


class QueryLimits(Struct, frozen=True):
    """How much a question to the dataset may cost, when a program asks it on behalf of others."""

    rows: int
    seconds: float


class Disconnected(StoreAway):
    """The connection broke: the transaction may or may not have been committed."""


class Outage:
    """How long a database that is away is waited for, and what happens meanwhile."""

    def __init__(self, seconds: float = RETRY_SECONDS, blocks_loop: bool = True) -> None:
        """Without `blocks_loop`, code that runs on an event loop does not wait."""
        self.seconds = seconds or RETRY_SECONDS
        self.blocks_loop = blocks_loop
        self.given_up = threading.Event()
        """Set to wait no longer."""

    def began(self, error: Disconnected) -> None:
        """Notice that the database is away."""

    def ended(self, seconds: float) -> None:
        """Notice that the database is back."""


class Waiting(Outage):
    """A command that waits for its database, and says so."""

    def __init__(self, seconds: float, tell: Callable[[str], None]) -> None:
        super().__init__(seconds)
        self._tell = tell

    def began(self, error: Disconnected) -> None:
        """Say what is waited for, and how long."""
        self._tell(f"Waiting for the database {describe_until(time.time() + self.seconds)}: {error.message}")


class Database(Protocol):
    """One connection. SQL is written once: `?` is a value, `{now}` the clock, `{for_update}` a row lock."""

    poll_seconds: float
    """How often it makes sense to poll the version."""
    outage: Outage

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

    def lock(self, name: str) -> None:
        """Take a named lock until the transaction ends."""

    def version(self) -> int:
        """Return a number that changes when another connection has written."""

    def has_table(self, name: str) -> bool:
        """Return whether the table exists."""

    def dialect(self, statement: str) -> str:
        """Translate a statement of the schema into this database's SQL; empty if it does not apply here."""

    def close(self) -> None:
        """Close the connection."""


def transact(database: Database, work: Callable[[bool], T]) -> T:
    """Do the work in a transaction; repeat it if the connection breaks.

    The work's argument is True for a repetition: the first attempt may have been committed.
    """

    def attempt(again: bool) -> T:
        with database.transaction():
            return work(again)

    return persist(database.outage, attempt)


def ask(database: Database, sql: str, *values: object) -> list[Row]:
    """Run a query; repeat it if the connection breaks."""
    return persist(database.outage, lambda _again: database.execute(sql, *values))


def persist(outage: Outage, attempt: Callable[[bool], T]) -> T:
    """Repeat an attempt until the database can be reached; raises Disconnected when that takes too long."""
    failures, since = 0, time.monotonic()
    for pause in pauses(0.2, 5.0):
        try:
            result = attempt(failures > 0)
        except Disconnected as error:
            failures += 1
            since = since if failures > 1 else time.monotonic()
            if not outage.blocks_loop and _current_task() is not None:
                if failures > 1:
                    raise
                continue  # a connection that broke often works again at once
            _raise_interrupt()
            if failures == 2:
                outage.began(error)
            left = since + outage.seconds - time.monotonic()
            if left <= 0 or outage.given_up.wait(min(pause, left)):
                raise
            _LOG.info("Trying again after %.1f s: %s", pause, error.message)
        else:
            if failures > 1:
                outage.ended(time.monotonic() - since)
            return result
    raise AssertionError("pauses never end")


def _current_task() -> asyncio.Task[Any] | None:
    """Return the task that runs in this thread."""
    import asyncio

    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _raise_interrupt() -> None:
    """Raise KeyboardInterrupt after Ctrl-C, which an event loop takes for itself."""
    task = _current_task()
    if task is not None and task.cancelling():
        raise KeyboardInterrupt


def escape_values(values: Sequence[object]) -> Row:
    """Return values as both databases can store them."""
    return tuple([escape(value) if isinstance(value, str) else value for value in values])
