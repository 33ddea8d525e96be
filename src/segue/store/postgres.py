"""The database on a server: Postgres, Supabase and the poolers in front of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from segue.domain.errors import QueryError, StoreDenied, StoreError
from segue.store.address import for_driver, is_pooled, masked
from segue.store.database import (
    ASK_HINT,
    EVERY_SECOND,
    RETRY_PAUSES,
    Disconnected,
    LongWait,
    QueryLimits,
    Row,
    Watch,
    escape_values,
    unescape_row,
)
from segue.store.schema import in_postgres
from segue.system.extras import missing_extra
from segue.system.sensitive import passwords_in

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Generator

    import psycopg

CHANNEL = "segue"
_LISTENING = 5.0
"""Seconds after which a waiter looks that has heard nothing."""
_NOW = "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)"
_OPTIONS = {
    "connect_timeout": 10,
    "application_name": "segue",
    # A server that vanished is noticed after 20 seconds, not after hours.
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
_QUOTED = re.compile(r"""'[^']*'|"[^"]*"|--[^\n]*|/\*.*?\*/|\?""", re.DOTALL)
_KEPT = "Everything up to the last finished step is kept."


class Postgres:
    """One connection to a Postgres database, which reconnects when it breaks."""

    poll_seconds = 0.25
    pauses: Sequence[float] | LongWait = RETRY_PAUSES

    def __init__(self, url: str) -> None:
        self._url = url
        self._psycopg = _driver()
        # Full disks, locked tables and read-only servers are temporary, too.
        self._temporary = (self._psycopg.OperationalError, self._psycopg.errors.ReadOnlySqlTransaction)
        self._in_transaction = False
        self._connection = self._connect()

    def execute(self, sql: str, *values: object) -> list[Row]:
        """Run one statement and return its rows."""
        with self._explain_errors():
            cursor = self._live().execute(_translate(sql), escape_values(values))
            rows = cursor.fetchall() if cursor.description else []
        return [unescape_row(row) for row in rows]

    def script(self, sql: str) -> None:
        """Run statements as they are written."""
        with self._explain_errors():
            self._live().execute(sql.encode())

    def change(self, sql: str, *values: object) -> int:
        """Run one statement and return the number of rows it changed."""
        with self._explain_errors():
            return self._live().execute(_translate(sql), escape_values(values)).rowcount

    def append(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Insert many rows with COPY."""
        statement = f"COPY {table} ({', '.join(columns)}) FROM STDIN"
        with self._explain_errors(), self._live().cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)

    def read(
        self, sql: str, values: Sequence[object], limits: QueryLimits | None = None
    ) -> tuple[list[str], list[Row]]:
        """Run a user's statement, read-only; return the names of its columns and its rows."""
        with self.transaction(), self._connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION READ ONLY")
            if limits is not None:
                # Only a query can be part of another one: not COPY, DO or CALL, which reach beyond the rows.
                sql = f"SELECT * FROM (\n{sql.rstrip().removesuffix(';')}\n) AS asked"  # noqa: S608
                cursor.execute(f"SET LOCAL statement_timeout = {round(limits.seconds * 1000)}")
            # Streaming sends one statement only: a second one could end the transaction.
            found = cast("Generator[Row]", cursor.stream(_placeholders(sql), escape_values(values)))
            asking = self._explain_question() if limits is not None else nullcontext()
            with asking, closing(found):
                rows = list(islice(found, limits.rows if limits else None))
                names = [column.name for column in cursor.description or ()]
            self._roll_back()  # what a function set or announced is forgotten
        return names, [tuple(map(_plain, unescape_row(row))) for row in rows]

    def stream(self, sql: str, size: int, *values: object) -> Iterator[list[Row]]:
        """Run a query and yield its rows in batches, with a cursor on the server."""
        with self.transaction(), self._connection.cursor("segue_stream") as cursor:
            cursor.execute(_translate(sql), escape_values(values))
            while rows := cursor.fetchmany(size):
                yield [unescape_row(row) for row in rows]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit at the end, roll back on any exception."""
        with self._explain_errors():
            connection = self._live()
            self._in_transaction = True
            try:
                with connection.transaction():
                    yield
            finally:
                self._in_transaction = False

    def begin_at_once(self) -> bool:
        """Return False: a server is always waited for."""
        return False

    def roll_back(self) -> None:
        """Do nothing: no transaction is begun before it is entered."""

    def lock(self, name: str) -> None:
        """Take an advisory lock until the transaction ends; poolers allow this kind."""
        self.execute("SELECT pg_advisory_xact_lock(hashtext(?))", f"segue {name}")

    def announce(self, topic: str = "") -> None:
        """Notify the watchers of this database once the transaction is committed."""
        self.execute("SELECT pg_notify(?, ?)", CHANNEL, topic)

    def watch(self, loop: asyncio.AbstractEventLoop, wake: Callable[[str], None]) -> Watch:
        """Listen on a separate connection, after a second: most waits are shorter, and a look is cheaper.

        Where listening is impossible, waiters look every second.
        """
        watch = Watch()
        if not is_pooled(self._url):
            watch.stop = loop.call_later(EVERY_SECOND, self._listen, loop, wake, watch).cancel
        return watch

    def _listen(self, loop: asyncio.AbstractEventLoop, wake: Callable[[str], None], watch: Watch) -> None:
        try:
            connection = self._connect()
        except StoreError:
            return
        descriptor = connection.fileno()

        def on_notify() -> None:
            try:
                for topic in {notice.payload for notice in connection.notifies(timeout=0)}:
                    wake(topic)
            except self._psycopg.Error:
                loop.remove_reader(descriptor)
                watch.is_lost = True
                wake("")

        def stop() -> None:
            loop.remove_reader(descriptor)
            connection.close()

        try:
            connection.execute(f"LISTEN {CHANNEL}")
            loop.add_reader(descriptor, on_notify)
        except (self._psycopg.Error, NotImplementedError):
            connection.close()
            return
        watch.stop, watch.pause = stop, _LISTENING
        wake("")  # something may have changed meanwhile

    def version(self) -> int:
        """Return when a run was last written to."""
        return int(self.execute("SELECT coalesce(max(updated), 0) FROM orchestrator_runs")[0][0])

    def has_table(self, name: str) -> bool:
        """Return whether the table exists."""
        return self.execute("SELECT to_regclass(?) IS NOT NULL", name) == [(True,)]

    def dialect(self, statement: str) -> str:
        """Translate the statement; before version 15 views cannot obey row level security."""
        old = self._connection.info.server_version < 150000
        return "" if old and "security_invoker" in statement else in_postgres(statement)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _live(self) -> psycopg.Connection[Row]:
        if self._connection.closed and not self._in_transaction:
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> psycopg.Connection[Row]:
        from psycopg.types.string import TextLoader

        shown = masked(self._url)
        if "[YOUR-PASSWORD]" in self._url:
            raise StoreError(
                f"The database URL {shown} contains no password yet.",
                hint="Replace [YOUR-PASSWORD] by the database's password.",
            )
        try:
            given = self._psycopg.conninfo.conninfo_to_dict(for_driver(self._url))
            if "@" in str(given.get("host", "")):  # the rest of a password with an @ in it
                raise self._psycopg.ProgrammingError
        except self._psycopg.Error:
            # The driver's message may quote a password it took for a port.
            raise StoreError(
                f"The database URL {shown} cannot be understood.",
                hint="Its form is postgresql://user:password@host:port/name, special characters %-encoded.",
            ) from None
        try:
            # Poolers that hand out connections per transaction cannot keep prepared statements.
            connection: psycopg.Connection[Row] = self._psycopg.connect(
                **{**_OPTIONS, **given}, autocommit=True, prepare_threshold=None
            )
        except self._psycopg.OperationalError as error:
            raise _kind(str(error))(
                f"The database {shown} cannot be reached: {self._without_password(error)}",
                kept=_KEPT,
                hint="Check the address, user and password in --database-url or SEGUE_DATABASE_URL. "
                "To work without it, leave the URL out and run `segue db push` later.",
            ) from None
        connection.adapters.register_loader("jsonb", TextLoader)
        return connection

    def _without_password(self, error: Exception) -> str:
        """Return what the driver says, which may repeat the address."""
        said = _first_line(error)
        for secret in sorted(passwords_in(self._url), key=len, reverse=True):
            said = said.replace(secret, "***") if len(secret) >= _SHORTEST else said
        return said

    def _roll_back(self) -> None:
        raise self._psycopg.Rollback

    @contextmanager
    def _explain_question(self) -> Iterator[None]:
        try:
            yield
        except self._psycopg.errors.QueryCanceled as error:  # asking again would take as long
            raise QueryError(
                f"The database {masked(self._url)} took longer than this question may.",
                hint="Ask for less: fewer rows, a narrower WHERE.",
            ) from error
        except self._psycopg.Error as error:
            if (error.sqlstate or "")[:2] not in _ASKED_WRONGLY:
                raise
            said = self._without_password(error)
            raise QueryError(f"The database cannot answer this: {said}.", hint=ASK_HINT) from error

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Turn the driver's errors into messages for people."""
        try:
            yield
        except self._psycopg.Error as error:
            kind = (
                Disconnected if self._connection.closed or isinstance(error, self._temporary) else StoreError
            )
            message = f"The database {masked(self._url)} failed: {self._without_password(error)}"
            raise kind(message, kept=_KEPT) from error


_ASKED_WRONGLY = ("0A", "21", "22", "25", "42")
"""Classes of errors that are in the question: syntax, unknown names, values that do not fit, writing."""

_SHORTEST = 4
"""Shorter passwords would be found in the words of every message."""

_DENIED = ("authentication failed", "no pg_hba.conf entry", "no password supplied", "user not found")
_PASSING = ("starting up", "shutting down", "recovery", "too many", "connection slots", "max clients")


def _kind(said: str) -> type[StoreError]:
    """Return which error a failed connection is: only some of them may go away by themselves."""
    if any(words in said for words in _DENIED) or ("FATAL" in said and "role" in said):
        return StoreDenied
    unknown = "Name or service not known" in said or "nodename nor servname" in said
    final = unknown or ("FATAL" in said and not any(words in said for words in _PASSING))
    return StoreError if final else Disconnected


def _driver() -> Any:
    try:
        import psycopg
        import psycopg.conninfo
    except ImportError as error:
        raise missing_extra("Postgres needs a driver that is not installed.", "postgres") from error
    return psycopg


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def _plain(value: object) -> object:
    """Return what SQLite would return: plain numbers, and dates as text."""
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03}Z"
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        return int(value) if isinstance(exponent, int) and exponent >= 0 else float(value)
    return int(value) if isinstance(value, bool) else value


@cache
def _translate(sql: str) -> str:
    return _placeholders(sql.replace("{now}", _NOW).replace("{for_update}", "FOR UPDATE"))


def _placeholders(sql: str) -> str:
    """Replace `?` by the driver's placeholder, except in quotes and comments."""
    return _QUOTED.sub(lambda match: "%s" if match[0] == "?" else match[0], sql.replace("%", "%%"))
