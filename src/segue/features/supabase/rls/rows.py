"""Fills every table with a row for each of two users, as the project's own role, which no policy binds."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import psycopg
from msgspec import Struct, field
from psycopg import Connection, Error, sql
from psycopg.sql import Composed

from segue.features.supabase.rls.catalog import USERS, CatalogTable, Column
from segue.features.supabase.rls.ownership import RowOwnership, direct_owners, grants_power, tenant_columns
from segue.features.supabase.rls.scratch import words_of
from segue.features.supabase.rls.values import candidates, hides, telling, tenant_of

_TRIES = 80

Row = dict[str, str | None]
"""A row as text, column by column."""


class User(Struct, frozen=True):
    """One of the two who are played off against each other."""

    label: str
    id: str

    @property
    def email(self) -> str:
        """His address."""
        return f"segue-{self.label.lower()}@example.com"

    def claims(self) -> str:
        """The claims of the user's token."""
        return json.dumps(
            {
                "sub": self.id,
                "role": "authenticated",
                "aud": "authenticated",
                "email": self.email,
                "aal": "aal1",
                "is_anonymous": False,
                "app_metadata": {"provider": "email"},
                "user_metadata": {},
            }
        )


A = User("A", "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa")
B = User("B", "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb")


class Filled(Struct):
    """The rows that were made."""

    rows: dict[tuple[str, str], Row] = field(default_factory=dict)
    """(table, user's label) → row."""
    given: dict[tuple[str, str], Row] = field(default_factory=dict)
    """The values that were chosen; the others came from defaults and triggers."""
    owners: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Table → the columns that say whose a row is."""
    tenants: frozenset[str] = frozenset()
    """Tables whose rows belong to their members."""
    shared: frozenset[str] = frozenset()
    """These, and the tables whose rows belong to them."""
    problems: dict[str, str] = field(default_factory=dict)
    """Table → why there are no rows."""


def sign_up(session: Connection[Any], user: User) -> None:
    """Do what the sign-up of Supabase does, with its role; raises what a trigger of the project raises."""
    meta = json.dumps(
        {"name": user.label, "full_name": f"User {user.label}", "username": f"user{user.label}"}
    )
    with session.transaction():
        session.execute("SET LOCAL ROLE supabase_auth_admin")
        session.execute(
            "INSERT INTO auth.users (id, aud, role, email, raw_app_meta_data, raw_user_meta_data, created_at,"
            " updated_at, email_confirmed_at) VALUES (%s, 'authenticated', 'authenticated', %s,"
            """ '{"provider": "email"}', %s::jsonb, now(), now(), now())""",
            (user.id, user.email, meta),
        )


def fill(session: Connection[Any], tables: list[CatalogTable], whose: RowOwnership) -> Filled:
    """Make the rows, tables that others refer to first."""
    shared = frozenset(whose.shared(tables))
    filled = Filled(owners=whose.columns, tenants=frozenset(whose.tenants), shared=shared)
    for table in in_order(tables):
        for user in (A, B):
            session.execute("SELECT set_config('request.jwt.claims', %s, false)", (user.claims(),))
            problem = _Maker(session, table, user, filled).make()
            if problem:
                filled.problems.setdefault(table.title, problem)
    session.execute("SELECT set_config('request.jwt.claims', '', false)")
    for table in tables:
        if grants_power(table) and not filled.problems.get(table.title):
            # An administrator may see everything; user A must be an ordinary user.
            mine = matching(direct_owners(table))
            query = sql.SQL("DELETE FROM {} WHERE {}").format(named(table), mine)
            with contextlib.suppress(psycopg.Error):
                session.execute(query, [A.id] * len(direct_owners(table)))
    return filled


def in_order(tables: list[CatalogTable]) -> list[CatalogTable]:
    """The tables so that what a row must refer to comes before it, where that is possible."""
    known = {table.title: table for table in tables}
    needs = {table.title: _needed(table) for table in tables}
    done: dict[str, CatalogTable] = {}

    def visit(table: CatalogTable, path: frozenset[str]) -> None:
        if table.title in done or table.title in path:
            return
        wishes = {key.target for key in table.foreign_keys} - needs[table.title]
        wishes = {title for title in wishes if table.title not in _all_needed(title, needs)}
        for title in [*sorted(needs[table.title]), *sorted(wishes)]:
            if title in known:
                visit(known[title], path | {table.title})
        done[table.title] = table

    for table in tables:
        visit(table, frozenset())
    return list(done.values())


def _needed(table: CatalogTable) -> set[str]:
    """The tables that a row cannot do without."""
    required = {column.name for column in table.columns if column.required}
    return {key.target for key in table.foreign_keys if required.issuperset(key.columns)} - {table.title}


def _all_needed(title: str, needs: Mapping[str, set[str]]) -> set[str]:
    """The same through all steps."""
    found, ahead = {title}, [title]
    while ahead:
        more = needs.get(ahead.pop(), set()) - found
        found |= more
        ahead += more
    return found


class _Maker:
    """Makes one row of one table for one user, and learns from what the database says."""

    def __init__(self, session: Connection[Any], table: CatalogTable, user: User, filled: Filled) -> None:
        self._session, self._table, self._user, self._filled = session, table, user, filled
        self._columns = {column.name: column for column in table.columns}
        self._fixed: Row = {}
        self._guesses: dict[str, list[str]] = {}
        self._at: dict[str, int] = {}

    def make(self) -> str:
        """Make the row, or say why it cannot be made."""
        missing = self._refer()
        if missing:
            return missing
        for name in direct_owners(self._table):
            self._fixed[name] = self._user.id
        for name in tenant_columns(self._table):
            self._fixed[name] = tenant_of(self._user.id)
        if self._adopt():
            return ""
        for column in self._columns.values():
            needed = column.required and not column.has_default
            if (needed or hides(column, self._table.checks)) and not column.generated:
                self._guess(column)
        said = ""
        for _ in range(_TRIES):
            try:
                return self._insert()
            except psycopg.Error as error:
                said = words_of(error)
                if not self._learn(error):
                    break
        return f"a row could not be made: {said}"

    def _refer(self) -> str:
        """Take over what foreign keys must hold; in words why that is impossible."""
        for key in self._table.foreign_keys:
            if key.target == USERS or key.target == self._table.title:
                continue
            there = self._filled.rows.get((key.target, self._user.label))
            if there is not None:
                self._fixed.update(
                    zip(key.columns, (there.get(name) for name in key.target_columns), strict=True)
                )
            elif all(self._columns[name].required for name in key.columns):
                return f"it needs a row of {key.target}, which could not be made"
        return ""

    def _adopt(self) -> bool:
        """A row may be there already: a trigger or the migration itself has made it."""
        owners = dict.fromkeys(direct_owners(self._table), self._user.id)
        found = self._read(owners) if owners else None
        if found is not None:
            self._keep(found, {**found})
        return found is not None

    def _guess(self, column: Column) -> None:
        if column.name not in self._fixed and column.name not in self._guesses:
            tag = self._user.label.lower() * 6
            self._guesses[column.name] = candidates(column, self._table.checks, tag)
            self._at[column.name] = 0

    def _values(self) -> Row:
        guessed = {name: options[self._at[name]] for name, options in self._guesses.items() if options}
        return {**guessed, **self._fixed}

    def _insert(self) -> str:
        values = self._values()
        with self._session.transaction():
            cursor = self._session.execute(
                insert_sql(self._table, values, returning=True), list(values.values())
            )
            made = cursor.fetchone()
        if made is None:
            return "a trigger keeps rows from being made"
        row: Row = dict(zip(self._columns, made, strict=True))
        self._keep(self._enriched(row), values)
        return ""

    def _enriched(self, row: Row) -> Row:
        """Put values where there are none, or a zero: nobody notices that nothing has leaked."""
        keyed = {name for key in self._table.foreign_keys for name in key.columns}
        checked = {name for check in self._table.checks for name in check.columns}
        known = {*keyed, *checked, *self._table.key, *self._values()}
        where = {name: value for name, value in row.items() if name in self._table.key and value is not None}
        for column in self._table.columns if where else ():
            value = telling(column, row[column.name], self._user.label)
            if column.name in known or value is None or column.generated:
                continue
            query = update_sql(self._table, [column.name], matching(where))
            with contextlib.suppress(psycopg.Error), self._session.transaction():
                self._session.execute(query, [value, *where.values()])
        return (self._read(where) if where else None) or row

    def _keep(self, row: Row, given: Row) -> None:
        place = (self._table.title, self._user.label)
        self._filled.rows[place] = row
        plain = {name for name, column in self._columns.items() if not column.generated}
        self._filled.given[place] = {name: value for name, value in given.items() if name in plain}

    def _read(self, where: Mapping[str, str]) -> Row | None:
        table = self._table
        parts = _as_text(table), named(table), matching(where)
        query = sql.SQL("SELECT {} FROM {} WHERE {} LIMIT 1").format(*parts)
        found = self._session.execute(query, list(where.values())).fetchone()
        return dict(zip(self._columns, found, strict=True)) if found else None

    def _learn(self, error: Error) -> bool:
        """Choose other values in the light of what the database says; False when there are none."""
        if error.sqlstate == "23502" and error.diag.column_name in self._columns:
            column = self._columns[error.diag.column_name]
            known = column.name in self._guesses or column.name in self._fixed
            self._guess(column)
            return not known and bool(self._guesses.get(column.name))
        if error.sqlstate not in ("23514", "23505"):
            return False
        constraints = [*self._table.checks, *self._table.uniques]
        named_in = [c.columns for c in constraints if c.name == error.diag.constraint_name]
        blamed = named_in[0] if named_in else tuple(self._guesses)
        for name in blamed:
            self._guess(self._columns[name])
        return self._advance([name for name in blamed if self._guesses.get(name)])

    def _advance(self, names: list[str]) -> bool:
        """The next combination of guesses for these columns, like an odometer."""
        for name in names:
            self._at[name] += 1
            if self._at[name] < len(self._guesses[name]):
                return True
            self._at[name] = 0
        return False


def named(table: CatalogTable) -> Composed:
    """The table as it is written in SQL."""
    return sql.SQL("{}").format(sql.Identifier(table.schema, table.name))


def matching(names: Iterable[str]) -> Composed:
    """The condition that columns, as text, have given values."""
    return sql.SQL(" AND ").join(sql.SQL("{}::text = %s").format(sql.Identifier(name)) for name in names)


def where_of(table: CatalogTable, row: Row) -> tuple[Composed, list[str]]:
    """The condition for one row: by its key, or by all that is known of it."""
    names = table.key or tuple(name for name, value in row.items() if value is not None)
    where = matching(names) if names else sql.SQL("true").format()
    return where, [str(row[name]) for name in names]


def _as_text(table: CatalogTable) -> Composed:
    return sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(c.name)) for c in table.columns)


def insert_sql(table: CatalogTable, values: Row, *, returning: bool = False) -> Composed:
    """An INSERT of text values, each cast to its column's type."""
    types = {column.name: column.type for column in table.columns}
    ending = sql.SQL(" RETURNING {}").format(_as_text(table)) if returning else sql.SQL("")
    if not values:
        return sql.SQL("INSERT INTO {} DEFAULT VALUES{}").format(named(table), ending)
    names = sql.SQL(", ").join(map(sql.Identifier, values))
    # The type's name comes from the catalogue, which has quoted it as SQL wants it.
    marks = sql.SQL(", ").join(sql.SQL("%s::" + types[name].replace("%", "%%")) for name in values)
    return sql.SQL("INSERT INTO {} ({}) VALUES ({}){}").format(named(table), names, marks, ending)


def update_sql(table: CatalogTable, names: Iterable[str], where: Composed) -> Composed:
    """An UPDATE of columns to text values, each cast to its column's type."""
    types = {column.name: column.type.replace("%", "%%") for column in table.columns}
    changes = sql.SQL(", ").join(
        sql.SQL("{} = %s::" + types[name]).format(sql.Identifier(name)) for name in names
    )
    return sql.SQL("UPDATE {} SET {} WHERE {}").format(named(table), changes, where)
