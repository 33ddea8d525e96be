"""Tries, as a stranger and as another user, what policies should forbid; everything is rolled back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from msgspec import Struct
from psycopg import ClientCursor, Connection, Error, sql
from psycopg.sql import Composed

from segue.domain.amounts import format_count
from segue.domain.text import cut_text
from segue.features.supabase.rls.catalog import CatalogTable, CatalogView
from segue.features.supabase.rls.ownership import grants_power
from segue.features.supabase.rls.report import Attempt
from segue.features.supabase.rls.rows import A, B, Filled, User, insert_sql, matching, named, where_of
from segue.features.supabase.rls.scratch import words_of

ANON = '{"role": "anon"}'
RECURSION = "42P17"

_SHOWN = 220
_COLUMNS_TRIED = 6
_DENIED = "42501"


class Actor(Struct, frozen=True):
    """The user on whose behalf a statement is tried."""

    label: str
    role: str
    claims: str


STRANGER = Actor("anon", "anon", ANON)
USER_A = Actor("user A", "authenticated", A.claims())


@contextmanager
def acting(session: Connection[Any], actor: Actor) -> Iterator[None]:
    """Be somebody, as the API makes a request be somebody; nothing of it stays."""
    with session.transaction(force_rollback=True):
        become(session, actor)
        yield


def become(session: Connection[Any], actor: Actor) -> None:
    """Be somebody else for the rest of the transaction."""
    session.execute("SELECT set_config('request.jwt.claims', %s, true)", (actor.claims,))
    session.execute(f"SET LOCAL ROLE {actor.role}")


class AccessTrial:
    """Tries everything on one table that has a row of each user."""

    def __init__(self, session: Connection[Any], table: CatalogTable, filled: Filled) -> None:
        self._session, self._table = session, table
        self._rows = {user.label: filled.rows[table.title, user.label] for user in (A, B)}
        self._given = {user.label: filled.given[table.title, user.label] for user in (A, B)}
        self._owners = filled.owners[table.title]
        self._tenant = table.title in filled.tenants
        self._teams = [n for key in table.foreign_keys if key.target in filled.shared for n in key.columns]

    def all(self) -> list[Attempt]:
        """Everything, in the order of a report."""
        own = [] if grants_power(self._table) else [self._read(USER_A, A, "read own")]
        *tried, delete = self.against_b(USER_A)
        return [*own, *tried, *self._hand_over(), delete, *self.against_b(STRANGER)]

    def against_b(self, actor: Actor) -> list[Attempt]:
        """Return what somebody can do to user B; a new team has no members yet, so it is nobody's."""
        read = self._read(actor, B, "read")
        insert = [] if self._tenant else [self._insert(actor)]
        return [read, *insert, self._update(actor, B), self._delete(actor, B)]

    def _read(self, actor: Actor, whose: User, what: str) -> Attempt:
        where, values = self._where(whose)
        query = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(named(self._table), where)
        return self._try(actor, what, query, values)

    def _insert(self, actor: Actor) -> Attempt:
        """Make another row that says it is B's."""
        given = self._given[B.label]
        query = insert_sql(self._table, given)
        before = self._count_of_b()
        attempt = self._try(actor, "insert", query, list(given.values()), after=self._count_of_b)
        if attempt.allowed and before is not None and attempt.said == f"after: {before}":
            # A trigger of the project has made it somebody else's.
            return Attempt(attempt.who, attempt.what, attempt.sql, False, "made, but not as user B's row")
        said = "1 row" if attempt.said.startswith("after: ") else attempt.said
        return Attempt(attempt.who, attempt.what, attempt.sql, attempt.allowed, said)

    def _count_of_b(self) -> int | None:
        """The number of rows that belong to B, as the project's own role sees it."""
        self._session.execute("RESET ROLE")
        there = {name: self._rows[B.label][name] for name in self._owners}
        known = {name: value for name, value in there.items() if value is not None}
        if not known:
            return None
        query = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(named(self._table), matching(known))
        row = self._session.execute(query, list(known.values())).fetchone()
        return int(row[0]) if row else None

    def _update(self, actor: Actor, whose: User) -> Attempt:
        """Change something about the row; columns may be granted one by one, so several are tried."""
        special = {*self._table.key, *self._owners}
        free = [c.name for c in self._table.columns if not c.generated]
        names = sorted(free, key=lambda name: name in special)[:_COLUMNS_TRIED]
        where, values = self._where(whose)
        attempt = Attempt(actor.label, "update", "UPDATE", None, "the table has no column to change")
        for name in names:
            column = sql.Identifier(name)
            query = sql.SQL("UPDATE {} SET {} = {} WHERE {}").format(
                named(self._table), column, column, where
            )
            attempt = self._try(actor, "update", query, values)
            if attempt.allowed or not attempt.said.startswith("permission denied"):
                break
        return attempt

    def _hand_over(self) -> list[Attempt]:
        """User A makes his own row B's, or puts it among B's; inside of a team rows may change hands."""
        theirs = self._rows[B.label]
        names = [name for name in self._owners if name not in self._table.key and theirs[name] is not None]
        if not names:
            return []
        free = [name for name in self._teams if name not in self._table.key and theirs[name] is not None]
        names = list(dict.fromkeys([*names, *free]))
        types = {column.name: column.type for column in self._table.columns}
        where, values = self._where(A)
        change = sql.SQL(", ").join(
            sql.SQL("{} = {}::" + types[name]).format(sql.Identifier(name), sql.Literal(theirs[name]))
            for name in names
        )
        query = sql.SQL("UPDATE {} SET {} WHERE {}").format(named(self._table), change, where)
        return [self._try(USER_A, "give away", query, values)]

    def _delete(self, actor: Actor, whose: User) -> Attempt:
        where, values = self._where(whose)
        query = sql.SQL("DELETE FROM {} WHERE {}").format(named(self._table), where)
        return self._try(actor, "delete", query, values)

    def _where(self, whose: User) -> tuple[Composed, list[str]]:
        return where_of(self._table, self._rows[whose.label])

    def _try(
        self, actor: Actor, what: str, query: Composed, values: Sequence[str | None], after: Any = None
    ) -> Attempt:
        text = shown(self._session, query, values)
        try:
            with acting(self._session, actor):
                cursor = self._session.execute(query, list(values))
                row = cursor.fetchone() if cursor.description else None
                count = int(row[0]) if row else cursor.rowcount
                counted = after() if after else None
        except psycopg.Error as error:
            return stopped(actor, what, text, error)
        said = f"after: {counted}" if after else format_count(count, "row")
        return Attempt(actor.label, what, text, count > 0, said)


def read_view(session: Connection[Any], view: CatalogView, actor: Actor) -> int | None:
    """Return the number of rows that a user sees through a view; None if reading is refused."""
    query = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(view.schema, view.name))
    try:
        with acting(session, actor):
            row = session.execute(query).fetchone()
    except psycopg.Error:
        return None
    return int(row[0]) if row else None


def stopped(actor: Actor, what: str, text: str, error: Error) -> Attempt:
    """Interpret an error: a constraint looks at a row only after the policies have let it through."""
    said = words_of(error)
    state = error.sqlstate or ""
    if state.startswith("23"):
        return Attempt(actor.label, what, text, True, f"the policies let it through, then: {said}")
    if state == _DENIED or (state == "P0001" and what not in ("read", "read own")):
        return Attempt(actor.label, what, text, False, said)
    return Attempt(actor.label, what, text, None, f"{state} {said}")


def shown(session: Connection[Any], query: Composed, values: Sequence[str | None]) -> str:
    """A statement as a report shows it."""
    return cut_text(" ".join(ClientCursor(session).mogrify(query, list(values)).split()), _SHOWN)
