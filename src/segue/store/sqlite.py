"""The database as a file: SQLite in WAL mode, safe against power loss."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from segue.domain.errors import AGAIN, DamagedRecord, QueryError, StoreError, StoreFull
from segue.store.database import ASK_HINT, RETRY_PAUSES, LongWait, Row, Watch, escape_values, unescape_row
from segue.store.schema import Word, create, words
from segue.system.files import create_new

if TYPE_CHECKING:
    import asyncio

    from segue.store.database import QueryLimits

T = TypeVar("T")
FLOOR = (3, 38, 0)
BUSY_SECONDS = 30.0
_CHUNKS = (500, 50)
_NOW = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
_LONGEST_VALUE = 16 * 1024**2
_STEPS_BETWEEN_LOOKS = 10_000
_READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
_KEPT = "Everything up to the last finished step is kept."
_REFUSALS = (
    ("interrupted", "took longer than this question may", "Ask for less: fewer rows, a narrower WHERE."),
    ("not authorized", "answers nothing but SELECT here", "Ask with a single SELECT."),
    ("prohibited", "answers nothing but SELECT here", "Ask with a single SELECT."),
    ("one statement", "answers nothing but SELECT here", "Ask with a single SELECT."),
)
_BAD_JSON = "malformed JSON"
_EXPLANATIONS = (
    (
        "not a database",
        "is not a Segue database",
        "Name another file with --database-url, or move this one away.",
    ),
    ("is a folder", "is a folder, not a file", "Name a file with --database-url, or move the folder away."),
    ("no ordinary file", "is not a file", "Name a file with --database-url, or move this one away."),
    ("malformed", "is damaged", "Restore a copy of the file, or move it away to start again."),
    ("unable to open", "cannot be opened", "Check that the folder exists and that you may write to it."),
    ("readonly", "cannot be written", "Check who owns the file and its folder, or name another one."),
    ("full", "cannot grow: the disk is full", f"Free some space, then {AGAIN}"),
    ("locked", "is locked by another process", "Stop the program that keeps the file open, then try again."),
    (
        "locking protocol",
        "is locked by another process",
        "Stop the program that keeps the file open, then try again.",
    ),
)


class Sqlite:
    """One connection to an SQLite file; path `None` is a private database, in memory if small."""

    poll_seconds = 0.05
    pauses: Sequence[float] | LongWait = RETRY_PAUSES

    def __init__(self, path: Path | None, read_only: bool = False, image: bytes = b"") -> None:
        """`image` is what a private database begins with."""
        if sqlite3.sqlite_version_info < FLOOR:
            raise StoreError(
                f"SQLite {sqlite3.sqlite_version} is too old: Segue needs 3.38 or newer.",
                hint="Use a Python built with a newer SQLite, or Postgres by --database-url.",
            )
        self._path = path
        self._read_only = read_only
        with self._explain_errors(kept=""):
            self._connection = self._connect()
            if image:
                self._connection.deserialize(image)
        self._file = self._identify()

    def execute(self, sql: str, *values: object) -> list[Row]:
        """Run one statement and return its rows."""
        with self._explain_errors():
            rows: list[Row] = self._ask(sql, values).fetchall()
        return [unescape_row(row) for row in rows]

    def _ask(self, sql: str, values: Sequence[object]) -> sqlite3.Cursor:
        return self._connection.execute(_translate(sql), escape_values(values))

    def change(self, sql: str, *values: object) -> int:
        """Run one statement and return the number of rows it changed."""
        with self._explain_errors():
            return self._connection.execute(_translate(sql), escape_values(values)).rowcount

    def append(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Insert rows with few statements: after each one the thread has to win Python's lock back."""
        done = 0
        with self._explain_errors():
            while left := len(rows) - done:
                size = next((size for size in _CHUNKS if size <= left), left)
                values = tuple(chain.from_iterable(rows[done : done + size]))
                self._connection.execute(_insert(table, tuple(columns), size), values)
                done += size

    def read(
        self, sql: str, values: Sequence[object], limits: QueryLimits | None = None
    ) -> tuple[list[str], list[Row]]:
        """Run a user's statement, read-only; return the names of its columns and its rows."""
        asking = self._explain_question() if limits is not None else nullcontext()
        with (
            self._explain_errors(),
            _only_reading(self._connection),
            asking,
            _limited(self._connection, limits),
        ):
            columns, rows = self._answer(sql, values, limits)
        return columns, [unescape_row(row) for row in rows]

    def _answer(
        self, sql: str, values: Sequence[object], limits: QueryLimits | None
    ) -> tuple[list[str], list[Row]]:
        with closing(self._connection.execute(sql, escape_values(values))) as cursor:
            rows: list[Row] = cursor.fetchmany(limits.rows) if limits else cursor.fetchall()
            return [column[0] for column in cursor.description or ()], rows

    def stream(self, sql: str, size: int, *values: object) -> Iterator[list[Row]]:
        """Run a query and yield its rows in batches."""
        with self._explain_errors():
            cursor = self._ask(sql, values)
            while rows := cursor.fetchmany(size):
                yield [unescape_row(row) for row in rows]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Take the write lock; commit at the end, roll back on any exception."""
        if self._file != self._identify():
            raise StoreError(
                f"The database {self._path} was deleted or replaced while it was in use.",
                hint="Commit what is in the work tree and give the same `segue run` again: the source "
                "remembers which tasks are done.",
            )
        with self._explain_errors():
            if not self._connection.in_transaction:
                self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            finally:
                self.roll_back()

    def begin_at_once(self) -> bool:
        """Begin the next transaction already, if no other process is writing; return whether it did."""
        try:
            self._connection.execute("PRAGMA busy_timeout = 0")
            try:
                self._connection.execute("BEGIN IMMEDIATE")
            finally:
                self._connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")
        except sqlite3.Error:
            return False  # whoever waits for it hears what is wrong
        return True

    def roll_back(self) -> None:
        """Undo a transaction that was begun and not committed."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def lock(self, name: str) -> None:
        """Do nothing: a transaction already has the one write lock."""

    def announce(self, _topic: str = "") -> None:
        """Do nothing: every commit changes the version that watchers poll."""

    def watch(self, loop: asyncio.AbstractEventLoop, wake: Callable[[str], None]) -> Watch:
        """Poll the version of the file on a separate connection, which costs microseconds."""
        watcher = Sqlite(self._path, read_only=True)
        seen = watcher.version()
        timer: asyncio.TimerHandle

        def poll() -> None:
            nonlocal seen, timer
            timer = loop.call_later(self.poll_seconds, poll)
            now = watcher.version()
            if now != seen:
                seen = now
                wake("")

        def stop() -> None:
            timer.cancel()
            watcher.close()

        timer = loop.call_later(self.poll_seconds, poll)
        return Watch(stop)

    def version(self) -> int:
        """Return a number that grows when another connection has committed."""
        return int(self.execute("PRAGMA data_version")[0][0])

    def has_table(self, name: str) -> bool:
        """Return whether the table exists."""
        return bool(self.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", name))

    def dialect(self, statement: str) -> str:
        """Translate the statement into SQLite's SQL; row level security does not exist here."""
        return _in_sqlite(statement)

    def image(self) -> bytes:
        """Return the whole database as the bytes of a file."""
        return self._connection.serialize()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _identify(self) -> tuple[int, int] | None:
        """Return which file the path leads to: SQLite would write on into one that is deleted."""
        if self._path is None:
            return None
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _connect(self) -> sqlite3.Connection:
        if self._path is None:
            return _raw_connection("")
        if self._path.exists() and not self._path.is_file():  # SQLite would wait for a pipe
            is_folder = self._path.is_dir()
            raise sqlite3.OperationalError("it is a folder" if is_folder else "it is no ordinary file")
        if self._read_only:
            return _read_connection(self._path)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise sqlite3.OperationalError(f"unable to open: {error}") from error
        connection = _raw_connection(str(self._path))
        _enter_wal(connection)
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    @contextmanager
    def _explain_question(self) -> Iterator[None]:
        """Say what is wrong with a question; what is wrong with the file is not the asker's."""
        try:
            yield
        except sqlite3.Error as error:
            for sign, meaning, hint in _REFUSALS:
                if sign in str(error):
                    raise QueryError(f"The database {self._path} {meaning} ({error}).", hint=hint) from error
            if not any(sign in str(error) for sign in (_BAD_JSON, *(sign for sign, *_ in _EXPLANATIONS))):
                raise QueryError(f"The database cannot answer this: {error}.", hint=ASK_HINT) from error
            raise

    @contextmanager
    def _explain_errors(self, kept: str = _KEPT) -> Iterator[None]:
        """Turn SQLite's errors into messages for people."""
        try:
            yield
        except sqlite3.Error as error:
            if _BAD_JSON in str(error):
                raise DamagedRecord(f"something in {self._path}", str(error)) from error
            for sign, meaning, hint in _EXPLANATIONS:
                if sign in str(error):
                    message = f"The database {self._path} {meaning} ({error})."
                    kind = StoreFull if sign == "full" else StoreError
                    raise kind(message, kept=kept, hint=hint) from error
            raise StoreError(f"The database {self._path} failed: {error}", kept=kept) from error


def create_file(path: Path) -> None:
    """Make a new file with all tables, the user's alone; one that exists is left as it is.

    SQLite forgets what is left of a file that was deleted, if the new one is empty.
    """
    left = any(Path(f"{path}{end}").exists() for end in ("-wal", "-journal"))
    if not path.exists() and (left or not create_new(path, _empty_image())):
        with suppress(OSError):  # SQLite says what is wrong with the place
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def open_empty() -> Sqlite:
    """Return a database with all tables and no rows, for readers of one that does not exist yet."""
    return Sqlite(None, image=_empty_image())


@cache
def _empty_image() -> bytes:
    with closing(Sqlite(None)) as database:
        create(database)
        return database.image()


@contextmanager
def _only_reading(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("PRAGMA query_only = ON")
    try:
        yield
    finally:
        connection.execute("PRAGMA query_only = OFF")


@contextmanager
def _limited(connection: sqlite3.Connection, limits: QueryLimits | None) -> Iterator[None]:
    """Allow nothing but SELECT inside the block, for some time; ATTACH would open any file of the user's."""
    if limits is None:
        yield
        return
    deadline = time.monotonic() + limits.seconds
    longest = connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_BETWEEN_LOOKS)
    connection.set_authorizer(
        lambda action, *_: sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY
    )
    try:
        yield
    finally:
        connection.set_authorizer(None)
        connection.set_progress_handler(None, 0)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, longest)


def _place(column: str, path: list[str]) -> str:
    return f"{column}, '$.{'.'.join(path)}'"


def _typed(kinds: str, value: str) -> Word:
    def write(column: str, path: list[str]) -> str:
        place = _place(column, path)
        found = value.replace("?", f"json_extract({place})")
        return f"CASE WHEN json_type({place}) IN ({kinds}) THEN {found} END"

    return write


_WORDS: dict[str, Word] = {
    "number": _typed("'integer', 'real'", "?"),
    "integer": _typed("'integer', 'real'", "CAST(? AS integer)"),
    "real": _typed("'integer', 'real'", "CAST(? AS real)"),
    "flag": _typed("'true', 'false'", "?"),
    "length": lambda column, path: f"json_array_length({_place(column, path)})",
    "instant": lambda column, _path: f"strftime('%Y-%m-%dT%H:%M:%fZ', {column} / 1000.0, 'unixepoch')",
    "each": lambda name, path: f"json_each({_place(path[0], path[1:])}) {name}",
    "position": lambda name, _path: f"{name}.key + 1",
}


_TYPES = {"jsonb": "text", "bigint": "integer"}


def _raw_connection(name: str) -> sqlite3.Connection:
    return sqlite3.connect(
        name,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        uri=name.startswith("file:"),
    )


def _read_connection(path: Path) -> sqlite3.Connection:
    """Open for reading."""
    name = f"{path.absolute().as_uri()}?mode=ro"
    connection = _raw_connection(name)
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        if os.access(path.parent, os.W_OK) and path.with_name(f"{path.name}-journal").exists():
            return _heal(path, name)
        raise
    return connection


def _heal(path: Path, name: str) -> sqlite3.Connection:
    """Let SQLite roll back what a process was doing to the file when it was killed, then open for reading.

    Who only reads may not do that. While the process lives, SQLite waits for it.
    """
    with closing(_raw_connection(str(path))) as writer:
        writer.execute("SELECT 1 FROM sqlite_master").fetchone()
    return _raw_connection(name)


def _enter_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL; here SQLite does not wait by itself for other processes that create the file."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


@cache  # a database in memory, for those who only look, needs the same as a new file
def _in_sqlite(statement: str) -> str:
    if re.match(r"ALTER (TABLE|VIEW) \w+ (ENABLE ROW|SET \()", statement):
        return ""
    statement = words(statement, _WORDS)
    # A column begins after something else: to try every letter of every word would take ten times as long.
    statement = re.sub(r"(?<![\w.])([\w.]+)->'(\w+)'->>'(\w+)'", r"json_extract(\1, '$.\2.\3')", statement)
    statement = re.sub(r"(?<![\w.])([\w.]+)->>'(\w+)'", r"json_extract(\1, '$.\2')", statement)
    return re.sub(r"\b(?:jsonb|bigint)\b", lambda kind: _TYPES[kind[0]], statement)


@cache
def _translate(sql: str) -> str:
    return sql.replace("{now}", _NOW).replace("{for_update}", "")


@cache
def _insert(table: str, columns: tuple[str, ...], rows: int) -> str:
    marks = f"({', '.join('?' * len(columns))})"
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([marks] * rows)}"  # noqa: S608
