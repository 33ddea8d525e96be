"""Work in the database: what runs without a remote begin with, and what each run has made so far."""

from __future__ import annotations

import base64

from msgspec import Struct

from segue.ports import Statement
from segue.store.database import Database, ask, transact
from segue.system.git.portable import Packed

_SAVE = (
    "INSERT INTO segue_fleet.bundles (name, data, head, digest, updated)"
    " VALUES (?, decode(?, 'base64'), ?, ?, {now}) ON CONFLICT (name) DO UPDATE SET"
    " data = excluded.data, head = excluded.head, digest = excluded.digest, updated = excluded.updated"
)


_DAY_MS = 24 * 3_600_000
_FORGET = (
    "DELETE FROM segue_fleet.bundles WHERE name = ?"
    " AND EXISTS (SELECT 1 FROM orchestrator_runs WHERE id = ? AND state = 'done')"
)
_FORGET_BASE = (
    "DELETE FROM segue_fleet.bundles WHERE name = ? AND updated < {now} - ? AND NOT EXISTS"
    " (SELECT 1 FROM orchestrator_runs r WHERE r.spec->'origin'->>'commit' = ? AND (r.state <> 'done'"
    " OR EXISTS (SELECT 1 FROM segue_fleet.bundles w WHERE w.name = 'work/' || r.id)))"
)
"""Somebody may be submitting a run that begins with it, so it stays for a day."""


def save_work(run: str, packed: Packed) -> Statement:
    """Return what stores the work of a run; values are text, so that a buffer can keep them."""
    return _SAVE, (f"work/{run}", _text(packed.data), packed.head, packed.digest)


class Whereabouts(Struct, frozen=True):
    """Where the work of a run is."""

    place: str = ""
    """The machine that has driven it last; empty: none."""
    digest: str = ""
    """Identifies what is in the database; empty: nothing."""


def find_work(database: Database, run: str) -> Whereabouts:
    """Return where the work of a run is."""
    rows = ask(
        database,
        "SELECT (SELECT place FROM segue_fleet.places WHERE run_id = ?),"
        " (SELECT digest FROM segue_fleet.bundles WHERE name = ?)",
        run,
        f"work/{run}",
    )
    return Whereabouts(rows[0][0] or "", rows[0][1] or "")


def settle_at(run: str, place: str) -> Statement:
    """Return what writes down which machine drives a run."""
    sql = (
        "INSERT INTO segue_fleet.places VALUES (?, ?, {now}) ON CONFLICT (run_id)"
        " DO UPDATE SET place = excluded.place, since = excluded.since, held = 0"
    )
    return sql, (run, place)


def load_work(database: Database, run: str) -> Packed | None:
    """Return what a run has made so far; None if it has not changed anything."""
    rows = ask(
        database,
        "SELECT data, head, digest FROM segue_fleet.bundles WHERE name = ?",
        f"work/{run}",
    )
    return Packed(bytes(rows[0][0]), rows[0][1], rows[0][2]) if rows else None


def touch_base(database: Database, commit: str) -> bool:
    """Return whether the history up to a commit is in the database; if so, it stays there for a day."""
    sql = "UPDATE segue_fleet.bundles SET updated = {now} WHERE name = ?"
    return transact(database, lambda _again: database.change(sql, f"base/{commit}")) == 1


def save_base(database: Database, commit: str, data: bytes) -> None:
    """Store the history up to a commit."""
    transact(database, lambda _again: database.execute(_SAVE, f"base/{commit}", _text(data), "", commit))


def forget_work(database: Database, run: str, commit: str) -> None:
    """Delete the work of a run that is done, and the history that it began with unless others need it."""

    def delete(_again: bool) -> None:
        database.execute(_FORGET, f"work/{run}", run)
        database.execute(_FORGET_BASE, f"base/{commit}", _DAY_MS, commit)

    transact(database, delete)


def load_base(database: Database, commit: str) -> bytes:
    """Return the history up to a commit."""
    rows = ask(database, "SELECT data FROM segue_fleet.bundles WHERE name = ?", f"base/{commit}")
    return bytes(rows[0][0]) if rows else b""


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
