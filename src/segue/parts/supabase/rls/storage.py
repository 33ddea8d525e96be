"""Tries the policies of storage: files of user B in every bucket, in folders named as projects name them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg
from msgspec import Struct
from psycopg import Connection, sql

from segue.domain.amounts import format_count
from segue.parts.supabase.rls.attempts import STRANGER, USER_A, Actor, become, shown, stopped
from segue.parts.supabase.rls.catalog import CatalogTable, read_tables
from segue.parts.supabase.rls.reach import Scene
from segue.parts.supabase.rls.report import Attempt
from segue.parts.supabase.rls.rows import A, B, User

OBJECTS = "storage.objects"

_BUCKETS = 20
_FOLDERS = 8
_NAMED = re.compile(r"bucket_id = '([^']+)'")
_LITERAL = re.compile(r"'([\w-]+)'::text")
_OPEN = re.compile(r"^(public|anon|any|all|shared?)", re.IGNORECASE)
_TRIES = {
    "read": "SELECT count(*) FROM storage.objects WHERE bucket_id = %s AND name = %s",
    "update": "UPDATE storage.objects SET metadata = '{{}}' WHERE bucket_id = %s AND name = %s",
    "delete": "DELETE FROM storage.objects WHERE bucket_id = %s AND name = %s",
}
_ADD = "INSERT INTO storage.objects (bucket_id, name, owner, owner_id) VALUES (%s, %s, %s::uuid, %s)"
_MOVE = "UPDATE storage.objects SET name = %s WHERE bucket_id = %s AND name = %s"


class Bucket(Struct, frozen=True):
    """A bucket, and what user A and a stranger could do to user B's files in it."""

    name: str
    public: bool
    attempts: tuple[Attempt, ...]


def read_objects(session: Connection[Any]) -> CatalogTable:
    """The table of all files with its policies."""
    [table] = [table for table in read_tables(session, ["storage"]) if table.title == OBJECTS]
    return table


def try_buckets(scene: Scene, objects: CatalogTable) -> list[Bucket]:
    """Every bucket that the project makes or that a policy names."""
    text = " ".join(f"{policy.using} {policy.with_check}" for policy in objects.policies)
    rows = scene.session.execute("SELECT id, coalesce(public, false) FROM storage.buckets ORDER BY 1")
    public: dict[str, bool] = dict(rows.fetchall())
    missing = [name for name in dict.fromkeys(_NAMED.findall(text)) if name not in public]
    if not public and not missing:
        missing = ["segue"] if objects.policies or not objects.enabled else []
    for name in missing:
        scene.session.execute("INSERT INTO storage.buckets (id, name) VALUES (%s, %s)", (name, name))
        public[name] = False
    prefixes = [p for p in dict.fromkeys(_LITERAL.findall(text)) if p not in public and not _OPEN.match(p)]
    pairs = list(_pairs(scene, prefixes[:3]))
    return [
        Bucket(name, is_public, tuple(_in_bucket(scene.session, name, pairs)))
        for name, is_public in list(public.items())[:_BUCKETS]
    ]


def _pairs(scene: Scene, prefixes: list[str]) -> Iterator[tuple[str, str]]:
    """Names of files: one of user A's and one of user B's that are named in the same way."""
    ids = [(A.id, B.id)]
    tenants = sorted(scene.hidden[USER_A.label], key=lambda title: title not in scene.whose.tenants)
    for title in tenants[:_FOLDERS]:
        key = scene.tables[title].key
        mine, theirs = (scene.filled.rows.get((title, user.label)) for user in (A, B))
        if mine and theirs and len(key) == 1 and scene.filled.owners[title]:
            ids.append((str(mine[key[0]]), str(theirs[key[0]])))
    for mine_id, their_id in dict.fromkeys(ids):
        for prefix in ("", *(f"{prefix}/" for prefix in prefixes)):
            yield f"{prefix}{mine_id}/segue.txt", f"{prefix}{their_id}/segue.txt"


def _in_bucket(session: Connection[Any], bucket: str, pairs: list[tuple[str, str]]) -> Iterator[Attempt]:
    """Return what is possible, once for each kind of attempt; of what is refused, the first."""
    for actor in (USER_A, STRANGER):
        for what in ("read", "insert", "update", "move", "delete"):
            if what == "move" and actor is STRANGER:
                continue
            tried = [_try(session, bucket, actor, what, mine, theirs) for mine, theirs in pairs]
            yield next((attempt for attempt in tried if attempt.allowed), tried[0])


def _try(session: Connection[Any], bucket: str, actor: Actor, what: str, mine: str, theirs: str) -> Attempt:
    """Try one thing with one file alone: a policy may fail on names of another kind."""
    user: User = A if what == "move" else B
    there = {"move": mine, "insert": ""}.get(what, theirs)
    uploader = A.id if actor is USER_A else None
    values: list[str | None] = [bucket, theirs]
    if what == "insert":
        values = [bucket, theirs, uploader, uploader]
    elif what == "move":
        values = [theirs, bucket, mine]
    query = sql.SQL({"insert": _ADD, "move": _MOVE}.get(what) or _TRIES[what]).format()
    text = shown(session, query, values)
    try:
        with session.transaction(force_rollback=True):
            if there:
                session.execute(_ADD, (bucket, there, user.id, user.id))
            become(session, actor)
            cursor = session.execute(query, values)
            row = cursor.fetchone() if cursor.description else None
            count = int(row[0]) if row else cursor.rowcount
    except psycopg.Error as error:
        attempt = stopped(actor, what, text, error)
        # A policy that cannot read the name of a file does not let it through.
        return attempt if attempt.allowed else Attempt(actor.label, what, text, False, attempt.said)
    return Attempt(actor.label, what, text, count > 0, format_count(count, "row"))
