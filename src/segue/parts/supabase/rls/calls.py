"""Calls every function of the API as each role, with user B's ids, and looks at what it gives and changes."""

from __future__ import annotations

import itertools
import json
import re
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from msgspec import Struct
from psycopg import sql

from segue.parts.supabase.rls.attempts import STRANGER, USER_A, Actor, acting, become, shown
from segue.parts.supabase.rls.catalog import ApiFunction
from segue.parts.supabase.rls.reach import Scene
from segue.parts.supabase.rls.rows import A, B, named, where_of

_FUNCTIONS = 80
_CALLS = 24
_CHOICES = {0: 1, 1: 14, 2: 6}
_ROWS = 200
_TIMED_OUT = "57014"
_SLOW = "waits for more than 3 s, so not everything was tried"
_TIMEOUT = "SET LOCAL statement_timeout = '3s'"

_SECRET = re.compile(r"token|code|secret|password|key|hash|otp|pin$", re.IGNORECASE)
_PERSON = re.compile(r"user|uid|owner|profile|member|author|sender|account|who|person", re.IGNORECASE)
_TABLE = re.compile(r"table|tbl|relation|entity", re.IGNORECASE)
_CHAIN = re.compile(r"(?:->>?\s*'\w+'\)*\s*)+")
_KEY = re.compile(r"->>?\s*'(\w+)'")
_INTEGERS = ("smallint", "integer", "bigint")
_TEXTS = ("text", "character varying", "extensions.citext", "citext")
_OTHERS = {
    "boolean": ("true", "false"),
    "json": ("{}",),
    "jsonb": ("{}",),
    "numeric": ("1",),
    "real": ("1",),
    "double precision": ("1",),
    "date": ("2030-01-01",),
    "timestamp with time zone": ("2030-01-01",),
    "timestamp without time zone": ("2030-01-01",),
}


class CallLeak(Struct, frozen=True):
    """A call that got at something of user B's."""

    who: str
    does: str
    sql: str
    hidden: bool
    """False if it changed a row that the caller may read, or was too slow to be tried."""


def leaking_calls(scene: Scene, functions: Sequence[ApiFunction]) -> Iterator[tuple[ApiFunction, CallLeak]]:
    """Call the functions; the first leak of each, for each of the two who call it."""
    before = rows_of_b(scene)
    for function in functions[:_FUNCTIONS]:
        for actor in (STRANGER, USER_A):
            if actor.role not in function.roles:
                continue
            leak = _first_leak(scene, function, actor, before)
            if leak is not None:
                yield function, leak


def _first_leak(scene: Scene, function: ApiFunction, actor: Actor, before: dict[str, str]) -> CallLeak | None:
    mild = None
    for values in _arguments(scene, function):
        try:
            leak = _called(scene, function, actor, values, before)
        except psycopg.Error as error:
            if error.sqlstate != _TIMED_OUT:
                continue
            # The others would take as long, and the whole check has a limit.
            return mild or CallLeak(actor.label, _SLOW, function.title, False)
        if leak is not None and leak.hidden:
            return leak
        mild = mild or leak
    return mild


def _called(
    scene: Scene, function: ApiFunction, actor: Actor, values: Sequence[str | None], before: dict[str, str]
) -> CallLeak | None:
    # The types come from the catalogue, which has quoted them as SQL wants it.
    marks = sql.SQL(", ").join(sql.SQL("%s::" + kind) for kind in function.types[: len(values)])
    called = sql.Identifier(function.schema, function.name)
    query = sql.SQL("SELECT x::text FROM {}({}) x LIMIT {}").format(called, marks, _ROWS)
    session = scene.session
    with acting(session, actor):
        session.execute(_TIMEOUT)
        rows = session.execute(query, list(values)).fetchall()
        result = "\n".join(str(row[0]) for row in rows)
        text = shown(session, query, values)
        secret = next((s for s in secrets_of(scene, actor) if s in result and s not in values), "")
        if secret:
            return CallLeak(actor.label, f"gets what is user B's alone ({secret[:60]})", text, True)
        seen = scene.newly_seen(actor)
        if seen:
            return CallLeak(actor.label, f"can read user B's row of {seen} afterwards", text, True)
        session.execute("RESET ROLE")
        changed = [title for title, row in rows_of_b(scene).items() if row != before[title]]
        become(session, actor)
    if not changed:
        return None
    hidden = [title for title in changed if title in scene.hidden[actor.label]]
    return CallLeak(actor.label, f"changes user B's row of {[*hidden, *changed][0]}", text, bool(hidden))


def rows_of_b(scene: Scene) -> dict[str, str]:
    """Every row of user B as the project's own role sees it; empty where it is gone."""
    found = {}
    for title, table in scene.tables.items():
        if (title, B.label) in scene.filled.rows and scene.filled.owners[title]:
            where, values = where_of(table, scene.filled.rows[title, B.label])
            query = sql.SQL("SELECT t::text FROM {} t WHERE {}").format(named(table), where)
            row = scene.session.execute(query, values).fetchone()
            found[title] = row[0] if row else ""
    return found


def secrets_of(scene: Scene, actor: Actor) -> list[str]:
    """Values that only user B's rows have, and that this actor cannot read anywhere."""
    hidden, others = {B.email}, {A.email, A.id, B.id}
    for (title, label), row in scene.filled.rows.items():
        private = label == B.label and title in scene.hidden[actor.label] and scene.filled.owners[title]
        (hidden if private else others).update(value for value in row.values() if value)
    return sorted(value for value in hidden - others if len(value) > (4 if value.isdecimal() else 5))


def _arguments(scene: Scene, function: ApiFunction) -> list[Sequence[str | None]]:
    """Combinations of arguments, the likeliest first."""
    found: list[Sequence[str | None]] = []
    for count in dict.fromkeys((len(function.types) - function.optional, len(function.types))):
        most = _CHOICES.get(count, 3)
        pairs = zip(function.names[:count], function.types[:count], strict=True)
        options = [
            list(enumerate(_choices(scene, name, kind, function.source)[:most])) for name, kind in pairs
        ]
        products = list(itertools.islice(itertools.product(*options), 2_000))
        products.sort(key=lambda choice: sum(place for place, _ in choice))
        found += [tuple(value for _, value in choice) for choice in products[:_CALLS]]
    return found


def _choices(scene: Scene, name: str, kind: str, source: str = "") -> list[str | None]:
    """Values for one argument: user B's ids, by the argument's name first; never his secrets."""
    if kind.endswith("[]"):
        inner = _choices(scene, name, kind[:-2])
        return [f"{{{value}}}" for value in inner if value and "," not in value] or ["{}"]
    if _SECRET.search(name):
        return [str(uuid.uuid4())] if kind in (*_TEXTS, "uuid") else ["1"]
    ids = _ids(scene, name, kind)
    if kind == "uuid":
        people = [B.id, A.id]
        return list(dict.fromkeys([*people, *ids] if _PERSON.search(name) else [*ids, *people]))
    if kind in _INTEGERS:
        return list(dict.fromkeys([*ids, "10", "1"]))
    if kind in _TEXTS:
        return _texts(scene, name, ids)
    if kind in ("json", "jsonb") and source:
        return _documents(scene, source)
    return list(_OTHERS.get(kind, (None,)))


def _documents(scene: Scene, source: str) -> list[str | None]:
    """JSON with the keys that a function reads, nested as it reads them, and values of user B."""
    known: dict[str, str | None] = {}
    for (_, label), row in scene.filled.rows.items():
        known |= {name: value for name, value in row.items() if label == B.label and value}
    found: list[str | None] = []
    for title in [title for title in scene.tables if (title, B.label) in scene.filled.rows]:
        row = {**known, **scene.filled.rows[title, B.label]}
        document: dict[str, Any] = {name: value for name, value in row.items() if value}
        for chain in _CHAIN.findall(source):
            *above, last = _KEY.findall(chain)
            place = document
            for name in above:
                if not isinstance(place.get(name), dict):
                    place[name] = {}
                place = place[name]
            place[last] = row.get(last) or _key_of(scene, title)
        found.append(json.dumps(document))
    return [*dict.fromkeys(found), "{}"]


def _key_of(scene: Scene, title: str) -> str | None:
    """The key of user B's row."""
    table = scene.tables[title]
    return scene.filled.rows[title, B.label][table.key[0]] if table.key else B.id


def _ids(scene: Scene, name: str, kind: str) -> list[str]:
    """The keys of user B's rows of this type, those of the table that the argument names first."""
    wanted = re.sub(r"^(p|in|arg|v)?_|_?(uu)?id$", "", name.lower())
    found = []
    for title, table in scene.tables.items():
        types = {column.name: column.base for column in table.columns}
        row = scene.filled.rows.get((title, B.label))
        if row is None or len(table.key) != 1 or types[table.key[0]] != kind:
            continue
        value = row[table.key[0]]
        if value is not None:
            fits = bool(wanted) and table.name.lower().startswith(wanted[:-1] or wanted)
            found.append((not fits, not scene.filled.owners[title], value))
    return [value for *_, value in sorted(found, key=lambda one: one[:2])]


def _texts(scene: Scene, name: str, ids: Sequence[str]) -> list[str | None]:
    wanted = re.sub(r"^(p|in|arg|v)?_", "", name.lower())
    columns = [
        row.get(wanted)
        for (title, label), row in scene.filled.rows.items()
        if label == B.label and scene.filled.owners[title]
    ]
    known = [value for value in columns if value]
    address = [B.email] if "mail" in wanted else []
    person = [B.id] if _PERSON.search(name) else []
    tables = [table.name for table in scene.tables.values()] if _TABLE.search(name) else []
    return list(
        dict.fromkeys(
            [*tables[:5], *address, *known, *person, "", "segue", "%", *ids, B.email, B.id, "admin"]
        )
    )
