"""Finds steps that a user may take for himself and that open what is another's: join, move, be promoted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg
from msgspec import Struct
from psycopg import Connection, sql
from psycopg.sql import Composed

from segue.features.supabase.rls.attempts import STRANGER, USER_A, AccessTrial, Actor, acting, become, shown
from segue.features.supabase.rls.catalog import ApiFunction, CatalogTable, Column, ForeignKey
from segue.features.supabase.rls.ownership import RowOwnership, direct_owners, policy_text, ranks, users_in
from segue.features.supabase.rls.report import Attempt, TableReport
from segue.features.supabase.rls.rows import (
    A,
    B,
    Filled,
    Row,
    insert_sql,
    matching,
    named,
    update_sql,
    where_of,
)

USER_B = Actor("user B", "authenticated", B.claims())

_VALUES = 10
_RANKS = re.compile(r"role|admin|staff|super|level|permission|access|rank", re.IGNORECASE)
_LITERAL = re.compile(r"'([\w -]{1,40})'")
_METADATA = re.compile(r"user_meta_?data'?(?:::\w+)?\)*((?:\s*->>?\s*'\w+'(?:::\w+)?\)*)+)")
_PATH = re.compile(r"'\{user_meta_?data,([\w,]+)\}'")
_KEY = re.compile(r"->>?\s*'(\w+)'")


class Scene(Struct):
    """The filled database, and what each of the two can see of user B's rows."""

    session: Connection[Any]
    tables: Mapping[str, CatalogTable]
    filled: Filled
    whose: RowOwnership
    functions: Sequence[ApiFunction]
    hidden: dict[str, tuple[str, ...]]
    """Who → the tables whose row of user B they cannot read."""

    def newly_seen(self, actor: Actor) -> str:
        """A table whose row of user B can be read now, inside of a transaction of this actor."""
        for title in self.hidden[actor.label]:
            table = self.tables[title]
            where, values = where_of(table, self.filled.rows[title, B.label])
            query = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(named(table), where)
            if self.count(query, values):
                return title
        return ""

    def count(self, query: Composed, values: Sequence[str | None]) -> int:
        """The first number that a query gives; 0 if it fails."""
        try:
            with self.session.transaction():
                row = self.session.execute(query, list(values)).fetchone()
        except psycopg.Error:
            return 0
        return int(row[0]) if row else 0


def hidden_rows(reports: Sequence[TableReport]) -> dict[str, tuple[str, ...]]:
    """Return which rows of user B each of the others cannot read."""
    return {
        who: tuple(
            report.title
            for report in reports
            if any(a.who == who and a.what == "read" and a.allowed is False for a in report.attempts)
        )
        for who in (STRANGER.label, USER_A.label)
    }


class OwnStep(Struct, frozen=True):
    """One thing that user A may do for himself."""

    does: str
    query: Composed
    values: list[str | None]
    moved: Row = {}
    """What of his row names a row of user B afterwards."""
    below: tuple[str, ...] = ()
    """The tables of these rows."""


def own_steps(scene: Scene) -> Iterator[tuple[str, Attempt]]:
    """Take every step in every table; those that open or reach something of user B, by table."""
    for table in scene.tables.values():
        if (table.title, A.label) not in scene.filled.rows or (table.title, B.label) not in scene.filled.rows:
            continue
        if not users_in(table, scene.tables):
            continue
        for step in _steps(scene, table):
            attempt = _taken(scene, table, step)
            if attempt is not None:
                yield table.title, attempt
                break


def _steps(scene: Scene, table: CatalogTable) -> Iterator[OwnStep]:
    mine = scene.filled.rows[table.title, A.label]
    given = scene.filled.given[table.title, A.label]
    where, values = where_of(table, mine)
    yield OwnStep("add himself", insert_sql(table, given), list(given.values()))
    for keys in _keys_to_move(scene, table):
        moved = _values_of_b(scene, keys)
        titles = tuple(key.target for key in keys)
        row = {**given, **moved}
        yield OwnStep("add a row among user B's", insert_sql(table, row), list(row.values()), moved, titles)
        query = update_sql(table, moved, where)
        yield OwnStep("move his row among user B's", query, [*moved.values(), *values], moved, titles)
    for column in table.columns:
        for value in _higher(scene, table, column, mine[column.name]):
            query = update_sql(table, [column.name], where)
            yield OwnStep(f"set his own {column.name} to {value}", query, [value, *values])
            row = {**given, column.name: value}
            yield OwnStep(f"give himself the {column.name} {value}", insert_sql(table, row), [*row.values()])


def _keys_to_move(scene: Scene, table: CatalogTable) -> list[list[ForeignKey]]:
    """The foreign keys that could name a row of user B: all together, and each alone."""
    people = set(users_in(table, scene.tables))
    keys = [
        key
        for key in table.foreign_keys
        if scene.filled.owners.get(key.target)
        and key.target != table.title
        and not people & set(key.columns)
        and (key.target, B.label) in scene.filled.rows
    ]
    if len(keys) < 2:
        return [keys] if keys else []
    return [keys, *([key] for key in keys)]


def _values_of_b(scene: Scene, keys: Sequence[ForeignKey]) -> Row:
    return {
        name: scene.filled.rows[key.target, B.label][there]
        for key in keys
        for name, there in zip(key.columns, key.target_columns, strict=True)
    }


def _higher(scene: Scene, table: CatalogTable, column: Column, now: str | None) -> list[str]:
    """Values that could make somebody more than he is."""
    if not _RANKS.search(column.name) or column.generated:
        return []
    if column.base == "boolean":
        return ["true"] if now != "true" else []
    named_here = ranks(table).get(column.name, [])
    policies = [policy_text(other, scene.functions) for other in scene.tables.values()]
    literals = [text for policy in policies for text in _LITERAL.findall(policy)]
    options = named_here or (literals if column.category == "S" else [])
    return [value for value in dict.fromkeys(options) if value != now][:_VALUES]


def _taken(scene: Scene, table: CatalogTable, step: OwnStep) -> Attempt | None:
    """Take a step and look around; None if it is refused or leads nowhere."""
    try:
        with acting(scene.session, USER_A):
            if scene.session.execute(step.query, step.values).rowcount < 1:
                return None
            seen = scene.newly_seen(USER_A)
            said = f"then he can read user B's row of {seen}" if seen else _found_by_b(scene, table, step)
    except psycopg.Error:
        return None
    text = shown(scene.session, step.query, step.values)
    return Attempt(USER_A.label, step.does, text, True, said) if said else None


def _found_by_b(scene: Scene, table: CatalogTable, step: OwnStep) -> str:
    """Return whether user B now finds user A's row among his own, where A cannot see what it is put into."""
    if not set(step.below) & set(scene.hidden[USER_A.label]):
        return ""
    owners = users_in(table, scene.tables)
    mine = scene.filled.rows[table.title, A.label]
    wanted = {**{name: mine[name] for name in owners}, **step.moved}
    wanted = {name: value for name, value in wanted.items() if value is not None}
    become(scene.session, USER_B)
    query = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(named(table), matching(wanted))
    return "user B finds it among his rows" if scene.count(query, list(wanted.values())) else ""


def as_ranked(scene: Scene) -> Iterator[tuple[str, Attempt]]:
    """Try everything again with each rank that user A can have in their own team."""
    for membership in scene.whose.memberships:
        table = scene.tables[membership.table]
        owners = direct_owners(table)
        mine = scene.filled.rows.get((table.title, A.label))
        alone = any(set(unique.columns) <= set(owners) for unique in table.uniques)
        if mine is None or not owners or alone:
            continue  # a rank that holds everywhere may open everything
        where, values = where_of(table, mine)
        for column, labels in ranks(table).items():
            for label in labels:
                if label != mine[column]:
                    change = update_sql(table, [column], where)
                    yield from _ranked(scene, f"as {label}", change, [label, *values])


def _ranked(
    scene: Scene, rank: str, change: Composed, values: list[str | None]
) -> Iterator[tuple[str, Attempt]]:
    try:
        with scene.session.transaction(force_rollback=True):
            scene.session.execute(change, values)
            found = list(against_b(scene, USER_A, scene.tables))
    except psycopg.Error:
        return
    for title, attempt in found:
        yield title, Attempt(attempt.who, attempt.what, attempt.sql, True, f"{attempt.said}, {rank}")


def with_own_metadata(scene: Scene) -> Iterator[tuple[str, Attempt]]:
    """Users can write what they like into user_metadata: user A writes what would make him user B."""
    for title, table in scene.tables.items():
        text = policy_text(table, scene.functions)
        for path in _list_paths(text):
            for value in _pretended(scene, text):
                written: Any = value
                for name in reversed(path):
                    written = {name: written}
                claims = {**json.loads(USER_A.claims), "user_metadata": written}
                liar = Actor(USER_A.label, USER_A.role, json.dumps(claims))
                found = [attempt for _, attempt in against_b(scene, liar, [title])]
                for one in found[:1]:
                    said = f"{one.said}, with user_metadata {json.dumps(written)}"
                    yield title, Attempt(one.who, one.what, one.sql, True, said)
                if found:
                    break


def _list_paths(text: str) -> list[tuple[str, ...]]:
    """Return the places in user_metadata that a policy reads, however deep."""
    chains = [tuple(_KEY.findall(chain)) for chain in _METADATA.findall(text)]
    return list(dict.fromkeys([*chains, *(tuple(path.split(",")) for path in _PATH.findall(text))]))


def _pretended(scene: Scene, text: str) -> list[str]:
    keys = [scene.filled.rows.get((title, B.label), {}) for title in sorted(scene.whose.tenants)]
    tenants = [value for row in keys for value in list(row.values())[:1] if value is not None]
    named = [f"segue@{domain}" for domain in re.findall(r"'%?@?([\w-]+(?:\.[\w-]+)+)'", text)]
    return list(dict.fromkeys([*tenants, B.id, "true", *named, *_LITERAL.findall(text), "admin"]))[
        : _VALUES * 2
    ]


def against_b(scene: Scene, actor: Actor, titles: Any) -> Iterator[tuple[str, Attempt]]:
    """Return what an actor can do to user B's rows that they could not do as themselves."""
    for title in titles:
        if title not in scene.hidden[actor.label] or not scene.filled.owners[title]:
            continue
        trial = AccessTrial(scene.session, scene.tables[title], scene.filled)
        for attempt in trial.against_b(actor):
            if attempt.allowed:
                yield title, attempt
