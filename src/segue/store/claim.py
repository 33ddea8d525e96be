"""Claims on runs and slots: one owner at a time, by leases with fencing."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime

from segue.domain.errors import LeaseLost, Locked, UsageError
from segue.store.database import Database, Row, ask, transact
from segue.store.rows import process_of
from segue.system import identity

LEASE_MS = 30_000
HEARTBEAT_SECONDS = 10.0
SLOTS = "slots"
"""What those watch for who wait for a slot."""
_HOLDERS = "SELECT n, owner, lease, {now} FROM orchestrator_slots WHERE backend = ?"


def new_owner() -> str:
    """Return a name for one claim of this process: two claims must not pass each other's fence."""
    return f"{identity.me()}#{uuid.uuid4().hex}"


def is_gone(owner: str, lease: int, now: int) -> bool:
    """Return whether an owner's claim may be taken over: it is dead, or has been silent for too long.

    A process of this machine that is known to be alive keeps its claim: the machine may have slept.
    """
    process = process_of(owner)
    if identity.is_dead(process):
        return True
    is_alive = identity.is_here(process) and not process.endswith("/-")
    return lease < now and not is_alive


def claim(
    database: Database, run_id: str, owner: str, lease_ms: int = LEASE_MS, released: str | None = None
) -> None:
    """Make `owner` the owner of the run, or raise Locked. Runs inside a transaction.

    `released` is a claim that was released while the database was away.
    """
    rows = database.execute(
        "SELECT owner, lease, claimed, {now} FROM orchestrator_runs WHERE id = ? {for_update}", run_id
    )
    if not rows:
        raise UsageError(f"There is no run {run_id}.", hint="`segue status` lists the runs.")
    holder, lease, claimed, now = rows[0]
    if holder and holder not in (owner, released) and not is_gone(holder, lease, now):
        raise _locked(run_id, process_of(holder), claimed)
    database.execute(
        "UPDATE orchestrator_runs SET owner = ?, claimed = {now}, lease = {now} + ? WHERE id = ?",
        owner,
        lease_ms,
        run_id,
    )


def fence(database: Database, run_id: str, owner: str, lease_ms: int = LEASE_MS) -> None:
    """Renew the lease, or raise LeaseLost. Every transaction of an owner begins with this."""
    newer = "CASE WHEN updated > {now} THEN updated ELSE {now} END"  # the clock may have been set back
    sql = f"UPDATE orchestrator_runs SET lease = {{now}} + ?, updated = {newer} WHERE id = ? AND owner = ?"  # noqa: S608
    if database.change(sql, lease_ms, run_id, owner) != 1:
        raise LeaseLost(
            f"Run {run_id} is driven by another process now.",
            kept="Everything up to the last finished step is kept.",
            hint=f"See `segue status {run_id}`.",
        )


def renew(
    database: Database,
    claims: Iterable[tuple[str, str]],
    slots: Iterable[str] = (),
    lease_ms: int = LEASE_MS,
) -> list[str]:
    """Renew leases of runs and slots; return the owners that lost their run. Runs inside a transaction."""
    for slot in slots:
        database.execute("UPDATE orchestrator_slots SET lease = {now} + ? WHERE owner = ?", LEASE_MS, slot)
    sql = "UPDATE orchestrator_runs SET lease = {now} + ? WHERE id = ? AND owner = ?"
    return [owner for run_id, owner in claims if database.change(sql, lease_ms, run_id, owner) != 1]


def release(database: Database, run_id: str, owner: str) -> None:
    """Release the run if this owner still has it. Runs inside a transaction."""
    database.execute(
        "UPDATE orchestrator_runs SET owner = NULL, lease = 0, claimed = NULL WHERE id = ? AND owner = ?",
        run_id,
        owner,
    )
    database.announce(run_id)


def take_slot(database: Database, backend: str, limit: int, owner: str, run_id: str) -> bool | None:
    """Take one of the slots that limit the agents of a backend; None while all are taken."""
    if len(_held(ask(database, _HOLDERS, backend))) >= limit:
        return None  # reading is cheap; the write lock is taken only if there is a chance

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
            backend,
            free,
            owner,
            LEASE_MS,
            run_id,
        )
        return True

    return transact(database, attempt)


def release_slot(database: Database, owner: str) -> None:
    """Release the slot of this owner, if there is one."""

    def attempt(_again: bool) -> None:
        database.execute("DELETE FROM orchestrator_slots WHERE owner = ?", owner)
        database.announce(SLOTS)

    transact(database, attempt)


def _held(rows: list[Row]) -> dict[int, str]:
    return {n: owner for n, owner, lease, now in rows if not is_gone(owner, lease, now)}


def _locked(run_id: str, process: str, claimed: int) -> Locked:
    since = datetime.fromtimestamp(claimed / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    host = process.split("/")[0]
    return Locked(
        f"Run {run_id} is driven by process {identity.pid_of(process)} on {host} since {since}.",
        hint=f"Wait for it, or end it with `segue stop {run_id}`.",
    )
