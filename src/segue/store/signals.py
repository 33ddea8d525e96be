"""Signals that other processes send to a run, each received exactly once."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

from segue.store.claim import LEASE_MS, fence
from segue.store.database import Database, ask, transact
from segue.store.encoding import decode, encode
from segue.store.rows import now

Payload = dict[str, Any]
Signal = tuple[str, Payload]
"""The id of a signal, and what it says."""


def leave(database: Database, run_id: str, topic: str, payload: Payload, signal_id: str) -> bool:
    """Add a signal unless one with this id was added before. Runs inside a transaction."""
    [(number,)] = database.execute(
        "SELECT coalesce(max(n), 0) + 1 FROM orchestrator_signals WHERE run_id = ?", run_id
    )
    added = database.change(
        "INSERT INTO orchestrator_signals (run_id, id, n, topic, payload, sent) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (run_id, id) DO NOTHING",
        run_id,
        signal_id,
        number,
        topic,
        encode(payload),
        now(),
    )
    database.announce(run_id)
    return added == 1


def topics(database: Database, run_id: str) -> frozenset[str]:
    """Return the topics on which there are signals that nobody took."""
    sql = "SELECT DISTINCT topic FROM orchestrator_signals WHERE run_id = ? AND consumed_by IS NULL"
    return frozenset(topic for (topic,) in ask(database, sql, run_id))


def withdraw(database: Database, run_id: str, signal_id: str) -> bool:
    """Remove a signal that nobody took; False if somebody has taken it. Runs inside a transaction."""
    sql = "DELETE FROM orchestrator_signals WHERE run_id = ? AND id = ? AND consumed_by IS NULL"
    return database.change(sql, run_id, signal_id) == 1


def take(
    database: Database, run_id: str, owner: str, topic: str, by: str, lease_ms: int = LEASE_MS
) -> Signal | None:
    """Take the oldest signal on the topic for the step (or owner) `by`.

    Only the owner of the run takes signals, and only on its writer's thread: nothing comes between
    the query and the update, and taking the same signal again after a broken connection is harmless.
    """
    rows = ask(
        database,
        "SELECT id, payload FROM orchestrator_signals"
        " WHERE run_id = ? AND topic = ? AND consumed_by IS NULL ORDER BY n, id LIMIT 1",
        run_id,
        topic,
    )
    if not rows:
        return None
    [(signal_id, payload)] = rows

    def mark(_again: bool) -> None:
        fence(database, run_id, owner, lease_ms)
        database.execute(
            "UPDATE orchestrator_signals SET consumed = ?, consumed_by = ? WHERE run_id = ? AND id = ?",
            now(),
            by,
            run_id,
            signal_id,
        )

    transact(database, mark)
    return signal_id, _payload(payload)


def give_back(database: Database, run_id: str, owner: str, signal_id: str, lease_ms: int = LEASE_MS) -> None:
    """Undo `take`: whoever waited for the signal was cancelled before it arrived."""

    def unmark(_again: bool) -> None:
        fence(database, run_id, owner, lease_ms)
        database.execute(
            "UPDATE orchestrator_signals SET consumed = NULL, consumed_by = NULL WHERE run_id = ? AND id = ?",
            run_id,
            signal_id,
        )

    transact(database, unmark)


def taken(database: Database, run_id: str, by: str) -> dict[str, deque[Payload]]:
    """Return what the step `by` took before it was interrupted, by topic: it gets the same again."""
    rows = ask(
        database,
        "SELECT topic, payload FROM orchestrator_signals"
        " WHERE run_id = ? AND consumed_by = ? ORDER BY consumed, n",
        run_id,
        by,
    )
    found: dict[str, deque[Payload]] = defaultdict(deque)
    for topic, payload in rows:
        found[topic].append(_payload(payload))
    return found


def _payload(text: str) -> Payload:
    value: Payload = decode(text)
    return value
