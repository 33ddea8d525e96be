"""Slots: how many agents of one backend work at once, counted across all processes of a store."""

from __future__ import annotations

from segue.store.claim import LEASE_MS, is_gone
from segue.store.database import Database, Row, ask, transact

_HOLDERS = "SELECT n, owner, lease, {now} FROM orchestrator_slots WHERE backend = ?"


def take_slot(database: Database, backend: str, limit: int, owner: str, run_id: str) -> bool | None:
    """Take a free slot; None while all are held."""
    if len(_held(ask(database, _HOLDERS, backend))) >= limit:
        return None  # looking is free; only a chance of success is worth the write lock

    def attempt(_again: bool) -> bool | None:
        database.lock(f"slots {backend}")
        rows = database.execute(_HOLDERS, backend)
        held = _held(rows)
        if owner in held.values():
            return True
        if len(held) >= limit:
            return None
        for n, *_ in rows:
            if n not in held:
                database.execute("DELETE FROM orchestrator_slots WHERE backend = ? AND n = ?", backend, n)
        free = next(n for n in range(1, limit + 1) if n not in held)
        database.execute(
            "INSERT INTO orchestrator_slots (backend, n, owner, lease, run_id)"
            " VALUES (?, ?, ?, {now} + ?, ?)",
            *(backend, free, owner, LEASE_MS, run_id),
        )
        return True

    return transact(database, attempt)


def release_slot(database: Database, owner: str) -> None:
    """Give a slot back, if it is held."""

    def attempt(_again: bool) -> None:
        database.execute("DELETE FROM orchestrator_slots WHERE owner = ?", owner)
        database.announce()

    transact(database, attempt)


def _held(rows: list[Row]) -> dict[int, str]:
    return {n: owner for n, owner, lease, now in rows if not is_gone(owner, lease, now)}
