"""Tries what leads around policies: partitions, triggers, addresses that only look right, channels."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import Connection, sql
from psycopg.sql import Composed

from segue.parts.supabase.rls.attempts import STRANGER, USER_A, Actor, acting, become, shown
from segue.parts.supabase.rls.calls import rows_of_b, secrets_of
from segue.parts.supabase.rls.catalog import CatalogTable
from segue.parts.supabase.rls.ownership import policy_text
from segue.parts.supabase.rls.reach import Scene, against_b
from segue.parts.supabase.rls.report import Attempt, RlsFinding, RlsLevel
from segue.parts.supabase.rls.rows import A, B, Row, insert_sql, named, update_sql, where_of

_PARTITIONS = """
SELECT root.nspname || '.' || top.relname, n.nspname, c.relname
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_class top ON top.oid = pg_catalog.pg_partition_root(c.oid)
JOIN pg_catalog.pg_namespace root ON root.oid = top.relnamespace
WHERE c.relispartition AND c.relkind IN ('r', 'p') AND n.nspname = ANY(%s) ORDER BY 2, 3
"""
_TRIGGERED = """
SELECT DISTINCT t.tgrelid::bigint FROM pg_catalog.pg_trigger t
JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid WHERE p.prosecdef AND NOT t.tgisinternal
"""
_CHANNELS = (
    "SELECT count(*) FROM pg_catalog.pg_policies WHERE schemaname = 'realtime' AND tablename = 'messages'"
)
_LITERAL = re.compile(r"'((?:[^']|'')*)'")
_DOMAIN = re.compile(r"(?:[a-z0-9-]+\\?\.)+[a-z]{2,}")
_IDS = 8
_TRIES = 40


def try_partitions(scene: Scene, schemas: Sequence[str]) -> Iterator[RlsFinding]:
    """Try every partition by its own name: then the policies of its table do not hold."""
    for title, schema, name in scene.session.execute(_PARTITIONS, (list(schemas),)).fetchall():
        table = scene.tables.get(title)
        if table is None or (title, B.label) not in scene.filled.rows:
            continue
        for actor in (STRANGER, USER_A):
            if title not in scene.hidden[actor.label]:
                continue
            found = _try_partition(scene, table, schema, name, actor)
            if found is not None:
                does = f"{actor.label} can {found.what} user B's row of {title} through its partition"
                yield RlsFinding(RlsLevel.ERROR, f"{schema}.{name}", f"{does}; tried: {found.sql}")
                break


def _try_partition(scene: Scene, table: CatalogTable, schema: str, name: str, actor: Actor) -> Attempt | None:
    where, values = where_of(table, scene.filled.rows[table.title, B.label])
    place = sql.Identifier(schema, name)
    column = sql.Identifier(table.columns[0].name)
    queries = {
        "read": sql.SQL("SELECT 1 FROM {} WHERE {}").format(place, where),
        "change": sql.SQL("UPDATE {} SET {} = {} WHERE {}").format(place, column, column, where),
        "delete": sql.SQL("DELETE FROM {} WHERE {}").format(place, where),
    }
    for what, query in queries.items():
        try:
            with acting(scene.session, actor):
                count = scene.session.execute(query, values).rowcount
        except psycopg.Error:
            continue
        if count > 0:
            return Attempt(actor.label, what, shown(scene.session, query, values), True, "1 row")
    return None


def try_triggers(scene: Scene) -> Iterator[RlsFinding]:
    """Do what user A may do with his own rows, where a trigger then acts with its owner's rights."""
    oids = {row[0] for row in scene.session.execute(_TRIGGERED)}
    _restore(scene)
    before = rows_of_b(scene)
    for table in scene.tables.values():
        if table.oid not in oids or (table.title, A.label) not in scene.filled.rows:
            continue
        for steps in list(_list_steps(scene, table))[:_TRIES]:
            found = _take(scene, table, steps, before)
            if found is not None:
                yield found
                break


def _restore(scene: Scene) -> None:
    """Make user B's rows again that a trigger has removed while tables were filled: it would show nothing."""
    for title in [title for title, row in rows_of_b(scene).items() if not row]:
        table = scene.tables[title]
        plain = {column.name for column in table.columns if not column.generated}
        row = {name: value for name, value in scene.filled.rows[title, B.label].items() if name in plain}
        with suppress(psycopg.Error), scene.session.transaction():
            scene.session.execute(insert_sql(table, row), list(row.values()))


Step = tuple[Composed, list[str | None]]


def _list_steps(scene: Scene, table: CatalogTable) -> Iterator[list[Step]]:
    """Yield what a user may send: rows of his own whose other columns name something of user B."""
    given = {**scene.filled.given[table.title, A.label]}
    where, values = where_of(table, scene.filled.rows[table.title, A.label])
    delete: Step = (sql.SQL("DELETE FROM {} WHERE {}").format(named(table), where), [*values])
    yield [(insert_sql(table, given), list(given.values()))]
    yield [delete]
    owners = {*scene.filled.owners[table.title], *table.key}
    for column in table.columns:
        if column.name in owners or column.generated:
            continue
        for value in _list_ids(scene, column.base):
            row: Row = {**given, column.name: value}
            yield [(insert_sql(table, row), list(row.values()))]
            change: Step = (update_sql(table, [column.name], where), [value, *values])
            yield [change]
            yield [change, delete]


def _list_ids(scene: Scene, kind: str) -> list[str]:
    found = [B.id] if kind == "uuid" else []
    for title, table in scene.tables.items():
        row = scene.filled.rows.get((title, B.label))
        if row is None or len(table.key) != 1:
            continue
        types = {column.name: column.base for column in table.columns}
        value = row[table.key[0]]
        if types[table.key[0]] == kind and value is not None and title in scene.hidden[USER_A.label]:
            found.insert(0, value)
    return found[:_IDS]


def _take(scene: Scene, table: CatalogTable, steps: list[Step], before: dict[str, str]) -> RlsFinding | None:
    session = scene.session
    text = "; ".join(shown(session, query, values) for query, values in steps)
    sent = {value for _, values in steps for value in values}
    try:
        with acting(session, USER_A):
            for query, values in steps:
                session.execute(query, values)
            rows = session.execute(
                sql.SQL("SELECT t::text FROM {} t LIMIT 200").format(named(table))
            ).fetchall()
            seen = "\n".join(str(row[0]) for row in rows)
            secret = next((one for one in secrets_of(scene, USER_A) if one in seen and one not in sent), "")
            session.execute("RESET ROLE")
            now = rows_of_b(scene)
            changed = [title for title in now if now[title] != before[title] and title != table.title]
            become(session, USER_A)
    except psycopg.Error:
        return None
    if secret:
        does = f"a trigger shows user A what is user B's alone ({secret[:60]})"
        return RlsFinding(RlsLevel.ERROR, table.title, f"{does}; tried: {text}")
    if not changed:
        return None
    hidden = [title for title in changed if title in scene.hidden[USER_A.label]]
    what = [*hidden, *changed][0]
    level = RlsLevel.ERROR if hidden else RlsLevel.WARNING
    return RlsFinding(
        level, table.title, f"a trigger lets user A change user B's row of {what}; tried: {text}"
    )


def with_other_addresses(scene: Scene) -> Iterator[tuple[str, Attempt]]:
    """Sign up with addresses that only look like those a policy names; the named ones are no leak."""
    for title, table in scene.tables.items():
        text = policy_text(table, scene.functions)
        if "mail" not in text:
            continue
        for address in _look_alike(text):
            claims = {**json.loads(USER_A.claims), "email": address}
            found = list(against_b(scene, Actor(USER_A.label, USER_A.role, json.dumps(claims)), [title]))
            for _, one in found[:1]:
                yield (
                    title,
                    Attempt(one.who, one.what, one.sql, True, f"{one.said}, with the address {address}"),
                )
            if found:
                break


def _look_alike(text: str) -> list[str]:
    found = []
    for literal in _LITERAL.findall(text):
        for domain in _DOMAIN.findall(literal):
            plain = domain.replace("\\", "")
            found += [f"segue@evil{plain}", f"segue@{plain}.evil.example", f"{plain}@evil.example"]
        name, at, rest = literal.partition("@")
        if at and name.strip("%^") and not _DOMAIN.search(rest):
            found.append(f"{name.strip('%^')}@evil.example")
    return list(dict.fromkeys(found))


def try_channels(scene: Scene) -> Iterator[RlsFinding]:
    """Try to listen and to send on Realtime channels that are named after user B or his teams."""
    session = scene.session
    if session.execute(_CHANNELS).fetchone() == (0,):
        return
    keys = [scene.filled.rows.get((title, B.label), {}) for title in sorted(scene.whose.tenants)]
    teams = [value for row in keys for value in list(row.values())[:1] if value]
    topics = [f"user:{B.id}", B.id, *(f"org:{team}" for team in teams), *teams]
    for what in ("listen", "send"):
        for actor in (STRANGER, USER_A):
            topic = next((one for one in topics if _may(session, actor, what, one)), None)
            if topic is not None:
                message = f"{actor.label} can {what} on user B's channel {topic}"
                yield RlsFinding(RlsLevel.ERROR, "realtime.messages", message)
                break


def _may(session: Connection[Any], actor: Actor, what: str, topic: str) -> bool:
    for extension in ("broadcast", "presence"):
        try:
            with session.transaction(force_rollback=True):
                session.execute("SELECT set_config('realtime.topic', %s, true)", (topic,))
                row = (topic, extension)
                insert = "INSERT INTO realtime.messages (topic, extension) VALUES (%s, %s)"
                if what == "send":
                    become(session, actor)
                    if session.execute(insert, row).rowcount:
                        return True
                    continue
                session.execute(insert, row)
                become(session, actor)
                query = "SELECT 1 FROM realtime.messages WHERE topic = %s AND extension = %s"
                if session.execute(query, row).fetchone():
                    return True
        except psycopg.Error:
            continue
    return False
