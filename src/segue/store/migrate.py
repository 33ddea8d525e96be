"""Migrate a database to the schema of this version, also when several processes try at once."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from segue.domain.errors import Locked, StoreError
from segue.domain.log import Log
from segue.domain.pattern import pattern
from segue.store.claim import is_gone
from segue.store.database import Database
from segue.store.rows import process_of
from segue.system import identity

VERSION = 13
"""The number of the newest file under `migrations/`."""

_LOG = Log("store")
_FOLDER = Path(__file__).with_name("migrations")
TABLE = "orchestrator_migrations"
CREATE = f"CREATE TABLE IF NOT EXISTS {TABLE} (version integer PRIMARY KEY, name text, applied bigint)"
_WORD = pattern(r"\{(\w+) ([\w.]+)([\w. ]*)\}")
_SAME = {
    "step": (
        "LEFT JOIN orchestrator_steps s ON s.run_id = %s.run_id AND s.key = %s.step AND s.gen = coalesce(("
        "SELECT max(g.gen) FROM orchestrator_steps g"
        " WHERE g.run_id = %s.run_id AND g.key = %s.step AND g.seq <= %s.seq), 1)"
    ),
    "last": (
        "NOT EXISTS (SELECT 1 FROM orchestrator_events l"
        " WHERE l.type = '{0}' AND l.run_id = %s.run_id AND l.step = %s.step AND l.seq > %s.seq"
        " AND NOT EXISTS (SELECT 1 FROM orchestrator_steps g WHERE g.run_id = %s.run_id AND g.key = %s.step"
        " AND g.seq > %s.seq AND g.seq <= l.seq))"
    ),
}
"""What both databases write in the same way; `%s` is the event, and `{0}` its type."""

Word = Callable[[str, list[str]], str]
"""Writes a word of the migrations, given a column and the keys that lead into its JSON."""


def version_of(database: Database) -> int:
    """Return the number of the last migration applied; 0 for a database without a journal."""
    if not database.has_table(TABLE):
        return 0
    return int(database.execute(f"SELECT coalesce(max(version), 0) FROM {TABLE}")[0][0])  # noqa: S608


def migrate(database: Database) -> list[str]:
    """Apply the missing migrations and return their names.

    Raises Locked while an older Segue drives a run in the database. An SQLite file is copied before, and the
    copy named: an older Segue can open that, and nothing else.
    """
    if refuse_newer(version_of(database)) == VERSION:
        return []
    with database.transaction():
        database.lock("migrations")
        database.execute(CREATE)
        before = version_of(database)
        if before in (0, VERSION):  # new, or another process was quicker
            return [apply(database, name) for name in scripts()[before:]]
        _refuse_driven(database, before)
        copy = database.copy(f".version-{before}")
        try:
            applied = [apply(database, name) for name in scripts()[before:]]
        except BaseException:
            if copy is not None:  # nothing has changed, so the next try makes its own
                copy.unlink(missing_ok=True)
            raise
    done = f"The database was migrated from version {before} to {VERSION}."
    if copy is None:
        _LOG.info(done)
    else:
        _LOG.tell(f"{done} As it was before: {copy}")
    return applied


def _refuse_driven(database: Database, version: int) -> None:
    """Refuse while a process drives a run: it would write what it knows into tables that it does not know."""
    for run, owner, lease, now in database.execute(
        "SELECT id, owner, lease, {now} FROM orchestrator_runs WHERE owner IS NOT NULL"
    ):
        if not is_gone(owner, lease, now):
            process = process_of(owner)
            raise Locked(
                f"The database has version {version}, this Segue needs {VERSION}, and an older Segue drives "
                f"run {run} in it (process {identity.pid_of(process)} on {process.split('/')[0]}).",
                kept="Nothing was changed.",
                hint=f"Wait until the run has ended, or end it with the older Segue: segue stop {run}",
            )


def refuse_newer(version: int) -> int:
    """Return the version, or raise if only a newer Segue understands it."""
    if version > VERSION:
        raise StoreError(
            f"The database has version {version}, this Segue knows versions up to {VERSION}.",
            hint="Update Segue: `segue help installing`",
        )
    return version


def scripts() -> list[str]:
    """Return the names of all migrations, in order."""
    return sorted(path.name for path in _FOLDER.glob("*.sql"))


def statements(name: str) -> list[str]:
    """Return the statements of a migration, before they are translated for a database."""
    text = (_FOLDER / name).read_text(encoding="utf-8")
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


def words(statement: str, own: Mapping[str, Word]) -> str:
    """Replace `{word column key …}`, which the databases write differently, or which is long."""

    def put(match: re.Match[str]) -> str:
        word, column, keys = match[1], match[2], match[3].split()
        if word in own:
            return own[word](column, keys)
        return _SAME[word].replace("%s", column).format(*keys)

    return _WORD.sub(put, statement)


def in_postgres(statement: str) -> str:
    """Translate a statement of a migration into Postgres' SQL."""
    return words(statement, _POSTGRES)


def _place(column: str, path: list[str]) -> str:
    return "->".join([column, *(f"'{key}'" for key in path)])


def _typed(kind: str, as_type: str) -> Word:
    def write(column: str, path: list[str]) -> str:
        place = _place(column, path)
        return f"CASE WHEN jsonb_typeof({place}) = '{kind}' THEN CAST({place} #>> '{{}}' AS {as_type}) END"

    return write


_number = _typed("number", "numeric")


def _integer(column: str, path: list[str]) -> str:
    """A number that no column can hold, whatever an agent wrote there, is left out."""
    found = _number(column, path)
    return f"CASE WHEN abs({found}) < 9e18 THEN CAST({found} AS bigint) END"


def _list(column: str, path: list[str]) -> str:
    place = _place(column, path)
    return f"CASE WHEN jsonb_typeof({place}) = 'array' THEN {place} END"


_POSTGRES: dict[str, Word] = {
    "number": _number,
    "integer": _integer,
    "real": _typed("number", "double precision"),
    "flag": _typed("boolean", "boolean"),
    "length": lambda column, path: f"jsonb_array_length({_list(column, path)})",
    "instant": lambda column, _path: f"to_timestamp({column} / 1000.0)",
    "each": lambda name, path: (
        f"LATERAL jsonb_array_elements({_list(path[0], path[1:])}) WITH ORDINALITY AS {name}(value, n)"
    ),
    "position": lambda name, _path: f"{name}.n",
    "forget": lambda _view, _path: "",  # replaced as it is, because other views depend on it
}
