"""What the fleet knows: its workers, which runs need somebody, and which ones nobody can drive."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import Self, TypeVar

from msgspec import Struct
from msgspec.structs import astuple

from segue.domain.run import Run, RunState
from segue.features.fleet.queue import DRIVE, QueueEntry, QueueKey, key_of
from segue.features.fleet.schema import QUEUE_SCHEMA
from segue.store import rows
from segue.store.database import RETRY_PAUSES, Row, Watch, ask, transact
from segue.store.postgres import Postgres
from segue.system import identity

T = TypeVar("T")

SILENT_MS = 45_000
"""After this time without a sign of life a worker counts as gone."""
_AT_ONCE = (0.1,)
"""For signs of life: the next one comes soon, and who ends waits for nobody."""
_FORGET_MS = 24 * 3_600_000
_KEEP_MS = 7 * 24 * 3_600_000
_MOST_FAILURES = 3
"""How often one machine may fail to drive a run that no other one tries."""

_OPEN = "state IN ('queued', 'running', 'parked') AND spec->>'origin' IS NOT NULL"
_WAITS = (
    "EXISTS (SELECT 1 FROM procrastinate.procrastinate_jobs j"
    " WHERE j.queueing_lock = 'run/' || r.id AND j.status = 'todo')"
)
_TAKEN = (
    "EXISTS (SELECT 1 FROM procrastinate.procrastinate_jobs j"
    " JOIN procrastinate.procrastinate_workers w ON w.id = j.worker_id"
    " WHERE j.args->>'run' = r.id AND j.status = 'doing' AND w.last_heartbeat > now() - interval '45 s')"
)
_WITH_QUEUE = f"SELECT set_config('search_path', '{QUEUE_SCHEMA},' || current_setting('search_path'), true)"
"""Until the transaction ends: what Procrastinate's own triggers need."""
_STALE = (
    "procrastinate.procrastinate_jobs j WHERE status = 'doing' AND NOT EXISTS"
    " (SELECT 1 FROM procrastinate.procrastinate_workers w"
    " WHERE w.id = j.worker_id AND w.last_heartbeat > now() - interval '45 s')"
)
"""Jobs of workers that are gone."""
_LEFT = (
    f"SELECT {rows.RUN} FROM orchestrator_runs r WHERE {_OPEN} AND NOT {_WAITS}"  # noqa: S608
    " AND coalesce(wake, 0) <= {now}"
    f" AND (CASE WHEN owner IS NULL THEN NOT {_TAKEN} ELSE lease < {{now}} END)"
    " ORDER BY created LIMIT 1000"
)


class Candidate(Struct, frozen=True):
    """A run that a machine could drive, and what speaks against that."""

    run: Run
    held: float
    """Seconds for which it is kept for the machine that has driven it last."""
    failed: bool
    """Whether this machine could not drive it before."""


class WorkerEntry(Struct, frozen=True):
    """A worker, as it introduces itself."""

    id: str
    host: str
    pid: int
    version: str
    tags: str
    repos: str
    seats: int


def entry_of(run: Run, at: float | None = None) -> QueueEntry:
    """Return the entry of a run in the queue; `at` is when it should be driven."""
    origin = run.spec.origin
    assert origin is not None
    when = datetime.fromtimestamp(at, UTC) if at is not None and at > time.time() else None
    return QueueEntry(run.id, key_of(origin.needs, origin.url), origin.priority, when)


def find_run(database: Postgres, run: str) -> Run | None:
    """Return a run."""
    found = ask(database, f"SELECT {rows.RUN} FROM orchestrator_runs WHERE id = ?", run)  # noqa: S608
    return rows.to_run(found[0]) if found else None


class Register:
    """The tables of the fleet; safe to use from several threads."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._database: Postgres | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def add_worker(self, entry: WorkerEntry) -> None:
        """Add a worker; those that were silent for a day are forgotten."""

        def write(database: Postgres) -> None:
            database.execute("DELETE FROM segue_fleet.workers WHERE seen < {now} - ?", _FORGET_MS)
            database.execute(
                "INSERT INTO segue_fleet.workers"
                " (id, host, pid, version, tags, repos, seats, state, started, seen)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, 'working', {now}, {now})",
                *astuple(entry),
            )

        self._change(write)

    def heartbeat(self, worker: str, runs: Collection[str]) -> None:
        """Say that a worker is alive, and what it does."""
        sql = "UPDATE segue_fleet.workers SET seen = {now}, runs = ? WHERE id = ?"
        self._change(lambda database: database.execute(sql, " ".join(runs), worker), _AT_ONCE)

    def end_worker(self, worker: str) -> None:
        """Say that a worker has ended."""
        sql = "UPDATE segue_fleet.workers SET seen = {now}, runs = '', state = 'ended' WHERE id = ?"
        self._change(lambda database: database.execute(sql, worker), _AT_ONCE)

    def find(self, run: str) -> Run | None:
        """Return a run."""
        with self._lock:
            return find_run(self._open(), run)

    def find_candidate(self, run: str, machine: str) -> Candidate | None:
        """Return a run, and what speaks against driving it on this machine."""
        found = self._ask(
            f"SELECT {rows.RUN}, (SELECT held - {{now}} FROM segue_fleet.places p"  # noqa: S608
            " WHERE p.run_id = r.id AND place <> ?),"
            " (SELECT count(*) FROM segue_fleet.failures f WHERE f.run_id = r.id AND worker = ?)"
            " FROM orchestrator_runs r WHERE id = ?",
            machine,
            machine,
            run,
        )
        if not found:
            return None
        *row, held, failed = found[0]
        return Candidate(rows.to_run(tuple(row)), max(0.0, float(held or 0) / 1000), failed > 0)

    def has_others(self, machine: str, key: QueueKey, agents: Collection[str]) -> bool:
        """Return whether a worker of another machine could take the runs of a queue."""
        found = self._ask(
            "SELECT tags, repos FROM segue_fleet.workers WHERE state = 'working' AND seen > {now} - ?"
            " AND NOT starts_with(id, ?)",
            SILENT_MS,
            f"{machine}/",
        )
        return any(key.fits(tags.split(), repos.split(), agents) for tags, repos in found)

    def waiting(self) -> list[QueueKey]:
        """Return the queues in which runs wait."""
        found = self._ask(
            "SELECT DISTINCT args->>'needs', args->>'repo' FROM procrastinate.procrastinate_jobs"
            " WHERE status = 'todo' AND task_name = ?",
            DRIVE,
        )
        return [QueueKey(tuple(json.loads(needs)), repo) for needs, repo in found]

    def notify_queue(self, queue: str) -> None:
        """Let whoever listens to a queue look into all of its queues."""
        news = json.dumps({"type": "job_inserted", "job_id": 0})
        self._ask("SELECT pg_notify(?, ?)", f"procrastinate_queue_v1#{queue}", news)

    def watch(self, loop: asyncio.AbstractEventLoop, wake: Callable[[str], None]) -> Watch:
        """Hear of changes in the database."""
        with self._lock:
            return self._open().watch(loop, wake)

    def note_failure(self, run: str, machine: str, said: str) -> bool:
        """Write down that this machine could not drive a run; True if a person has to look at it now."""

        def write(database: Postgres) -> bool:
            database.execute("INSERT INTO segue_fleet.failures VALUES (?, ?, {now}, ?)", run, machine, said)
            [(total, machines)] = database.execute(
                "SELECT count(*), count(DISTINCT worker) FROM segue_fleet.failures WHERE run_id = ?", run
            )
            if machines < 2 and total < _MOST_FAILURES:
                return False
            where = f"{machines} workers" if machines > 1 else "its only worker"
            changed = database.change(
                "UPDATE orchestrator_runs SET state = ?, note = ?, updated = {now}"
                " WHERE id = ? AND owner IS NULL",
                RunState.NEEDS_HUMAN.value,
                f"{where} could not drive it: {said}"[:1000],
                run,
            )
            database.announce(run)
            return changed == 1

        return self._change(write)

    def clear_failures(self, run: str) -> None:
        """Forget earlier failures: a person wants the run to be tried again."""
        self._change(
            lambda database: database.execute("DELETE FROM segue_fleet.failures WHERE run_id = ?", run)
        )

    def sweep(self) -> list[Run]:
        """Return the runs that nobody drives and that no queue has; remove jobs of workers that are gone."""

        def look(database: Postgres) -> list[Run]:
            if database.execute("SELECT pg_try_advisory_xact_lock(hashtext('segue sweep'))") != [(True,)]:
                return []  # another worker is at it
            database.execute(_WITH_QUEUE)
            database.execute(f"DELETE FROM {_STALE}")  # noqa: S608
            return [rows.to_run(row) for row in database.execute(_LEFT)]

        nothing = self._ask(f"SELECT 1 WHERE EXISTS (SELECT 1 FROM {_STALE}) OR EXISTS ({_LEFT})") == []  # noqa: S608
        return [] if nothing else self._change(look)

    def left_by(self, machine: str) -> list[str]:
        """Return the runs that this machine drove last and that are not being driven now."""
        runs = self._driven_at(machine)
        return [run.id for run in runs if run.owner is None or identity.is_dead(run.owner)]

    def driven_without_worker(self, machine: str, own: Collection[str]) -> list[str]:
        """Return who drives runs of this machine for a worker that was killed; `own` are those of this one.

        While another worker of the machine lives, nobody knows whose they are.
        """
        others = self._ask(
            "SELECT host, pid FROM segue_fleet.workers WHERE state = 'working' AND starts_with(id, ?)",
            f"{machine}/",
        )
        here = [pid for host, pid in others if host == identity.host() and pid != os.getpid()]
        if any(identity.start_time(pid) is not None for pid in here):
            return []
        owners = [run.owner for run in self._driven_at(machine) if run.id not in own]
        return [one for one in owners if one and identity.is_here(one) and not identity.is_dead(one)]

    def _driven_at(self, machine: str) -> list[Run]:
        found = self._ask(
            f"SELECT {rows.RUN} FROM orchestrator_runs r JOIN segue_fleet.places p ON p.run_id = r.id"  # noqa: S608
            f" WHERE {_OPEN} AND p.place = ? AND coalesce(wake, 0) <= {{now}}",
            machine,
        )
        return [rows.to_run(row) for row in found]

    def forget_done(self) -> None:
        """Delete the work of runs that are done: their branches have it."""
        sql = (
            "DELETE FROM segue_fleet.bundles b USING orchestrator_runs r"
            " WHERE b.name = 'work/' || r.id AND r.state = 'done'"
        )
        self._change(lambda database: database.execute(sql))

    def needed_at(self, machine: str, runs: Collection[str]) -> set[str]:
        """Return which of the runs this machine should keep: those that it may have to continue.

        One that waits for a person is kept for a week; from then on the database has its work.
        """
        found = self._ask(
            "SELECT id FROM orchestrator_runs r JOIN segue_fleet.places p ON p.run_id = r.id"
            " WHERE id = ANY(?) AND p.place = ? AND state <> 'done'"
            " AND (state IN ('queued', 'running', 'parked') OR updated > {now} - ?)",
            list(runs),
            machine,
            _KEEP_MS,
        )
        return {run for (run,) in found}

    def hold(self, runs: Collection[str], machine: str, seconds: float) -> None:
        """Keep runs for this machine for a while."""

        def write(database: Postgres) -> None:
            for run in runs:
                database.execute(
                    "UPDATE segue_fleet.places SET held = {now} + ? WHERE run_id = ? AND place = ?",
                    int(seconds * 1000),
                    run,
                    machine,
                )
                database.execute(
                    "UPDATE orchestrator_runs SET lease = {now} + ? WHERE id = ?", int(seconds * 1000), run
                )

        self._change(write)

    def stop(self, run: str) -> bool:
        """Stop a run that nobody drives; False if somebody does."""
        sql = (
            "UPDATE orchestrator_runs SET owner = NULL, updated = {now},"
            " note = CASE WHEN state IN ('queued', 'running', 'parked') THEN ? ELSE note END,"
            " state = CASE WHEN state IN ('queued', 'running', 'parked') THEN 'stopped' ELSE state END"
            " WHERE id = ? AND (owner IS NULL OR lease < {now})"
        )
        return self._change(lambda database: database.change(sql, "stopped by `segue stop`", run)) == 1

    def requeue(self, run: str) -> bool:
        """Let workers continue a run that has stopped or waits for a person; False if it is being driven."""
        sql = (
            "UPDATE orchestrator_runs SET state = 'queued', wake = NULL, updated = {now} WHERE id = ?"
            " AND state <> 'done' AND (owner IS NULL OR lease < {now})"
        )
        return self._change(lambda database: database.change(sql, run)) == 1

    def _ask(self, sql: str, *values: object) -> list[Row]:
        with self._lock:
            return ask(self._open(), sql, *values)

    def _change(self, work: Callable[[Postgres], T], pauses: Sequence[float] = RETRY_PAUSES) -> T:
        with self._lock:
            database = self._open()
            database.pauses = pauses
            try:
                return transact(database, lambda _again: work(database))
            finally:
                database.pauses = RETRY_PAUSES

    def _open(self) -> Postgres:
        if self._database is None:
            self._database = Postgres(self._address)
        return self._database
