"""The tables and views of the database: made once; a database of another version is refused."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from segue.domain.errors import StoreError
from segue.store.database import Database

VERSION = 14
"""The version of the schema; it grows with every change of `schema.sql` or `views.sql`."""

TABLE = "orchestrator_migrations"
CREATE = f"CREATE TABLE IF NOT EXISTS {TABLE} (version integer PRIMARY KEY, name text, applied bigint)"
_WORD = re.compile(r"\{(\w+) ([\w.]+)([\w. ]*)\}")
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
"""Writes a word of the SQL files, given a column and the keys that lead into its JSON."""


def version_of(database: Database) -> int:
    """Return the version of the schema; 0 for a database without a journal."""
    if not database.has_table(TABLE):
        return 0
    return int(database.execute(f"SELECT coalesce(max(version), 0) FROM {TABLE}")[0][0])  # noqa: S608


def create(database: Database) -> bool:
    """Make the schema where there is none, also when several processes try at once; return whether it did."""
    if is_made(database):
        return False
    with database.transaction():
        database.lock("migrations")
        if is_made(database):
            return False
        for part in (CREATE, *statements()):
            if statement := database.dialect(part):
                database.execute(statement)
        made = f"INSERT INTO {TABLE} VALUES (?, 'schema', ?)"  # noqa: S608
        database.execute(made, VERSION, int(time.time() * 1000))
    return True


def is_made(database: Database) -> bool:
    """Return whether the database has this schema; raises StoreError if it has that of another version."""
    version = version_of(database)
    if version in (0, VERSION):
        return version == VERSION
    raise StoreError(
        f"The database has version {version}, this Segue needs {VERSION}.",
        kept="It was not changed.",
        hint="Use the Segue that wrote it, or name another database with --database-url",
    )


def statements() -> Iterator[str]:
    """Yield the statements in Postgres' words, before they are translated for a database.

    Supabase serves every table of `public` to the world unless row level security is on; the owner is exempt.
    """
    yield f"ALTER TABLE {TABLE} ENABLE ROW LEVEL SECURITY"
    for name in ("schema.sql", "views.sql"):
        text = Path(__file__).with_name(name).read_text(encoding="utf-8")
        for part in re.sub(r"(?m)^--.*\n", "", text).split(";\n"):
            statement = part.strip()
            if statement:
                yield statement
            if made := re.match(r"CREATE (TABLE|VIEW) (\w+)", statement):
                secure = (
                    "ENABLE ROW LEVEL SECURITY" if made[1] == "TABLE" else "SET (security_invoker = true)"
                )
                yield f"ALTER {made[1]} {made[2]} {secure}"


def words(statement: str, own: Mapping[str, Word]) -> str:
    """Replace `{word column key …}`, which the databases write differently, or which is long."""

    def put(match: re.Match[str]) -> str:
        word, column, keys = match[1], match[2], match[3].split()
        if word in own:
            return own[word](column, keys)
        return _SAME[word].replace("%s", column).format(*keys)

    return _WORD.sub(put, statement)


def in_postgres(statement: str) -> str:
    """Translate a statement into Postgres' SQL."""
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
}
