"""What the fleet does: its workers, the queue, what is stalled, and how much gets done."""

from __future__ import annotations

import json

from msgspec import Struct, field

from segue.fleet.queue import QueueKey
from segue.fleet.register import SILENT_MS
from segue.store.database import Row, ask
from segue.store.postgres import Postgres

_HOUR = 3_600_000


class WorkerStatus(Struct, frozen=True):
    """One worker."""

    id: str
    host: str
    state: str
    """`working`, `silent` (no sign of life) or `ended`."""
    seats: int
    runs: tuple[str, ...]
    tags: tuple[str, ...]
    repos: tuple[str, ...]
    """Patterns of the repositories that it may work on."""
    version: str
    started: int
    seen: int


class QueueStatus(Struct, frozen=True):
    """The runs that wait with the same needs."""

    queue: str
    waiting: int
    later: int
    """Of these, the ones that begin at a given time or when a usage limit ends."""
    oldest: int | None
    """How long the first of them has been waiting, in milliseconds."""
    served: bool
    """Whether a worker that is alive can take them."""


class FleetStatus(Struct, frozen=True):
    """The fleet at a glance."""

    now: int
    workers: tuple[WorkerStatus, ...] = ()
    queues: tuple[QueueStatus, ...] = ()
    states: dict[str, int] = field(default_factory=dict)
    """How many runs of the fleet are in which state."""
    stalled: tuple[str, ...] = ()
    """Runs whose worker is silent; another one takes them over."""
    finished_hour: int = 0
    """Runs that were finished in the last hour."""
    slots: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Agents that are limited in the whole fleet: at work, allowed."""


def read_status(database: Postgres) -> FleetStatus:
    """Read everything."""
    [(now,)] = ask(database, "SELECT {now}")
    workers = tuple(_worker(row, now) for row in ask(database, _WORKERS))
    able = [worker for worker in workers if worker.state == "working"]
    queues = tuple(_queue(row, now, able) for row in ask(database, _QUEUES))
    stalled = tuple(str(row[0]) for row in ask(database, _STALLED))
    states: dict[str, int] = dict(ask(database, _STATES))
    [(finished,)] = ask(database, _FINISHED, now - _HOUR)
    slots = {row[0]: (row[1], row[2]) for row in ask(database, _SLOTS)}
    return FleetStatus(now, workers, queues, states, stalled, finished, slots)


_WORKERS = (
    "SELECT id, host, state, seats, runs, tags, repos, version, started, seen FROM segue_fleet.workers"
    " WHERE state = 'working' OR seen > {now} - 600000 ORDER BY started"
)
_QUEUES = (
    "SELECT args->>'needs', args->>'repo', count(*), count(CASE WHEN scheduled_at > now() THEN 1 END),"
    " min(CASE WHEN scheduled_at IS NULL OR scheduled_at <= now() THEN r.created END)"
    " FROM procrastinate.procrastinate_jobs j LEFT JOIN orchestrator_runs r ON r.id = j.args->>'run'"
    " WHERE j.status = 'todo' AND j.task_name = 'segue.drive' GROUP BY 1, 2 ORDER BY 2, 1"
)
_FLEET = "spec->>'origin' IS NOT NULL"
_STATES = (
    f"SELECT state, count(*) FROM orchestrator_runs WHERE {_FLEET} AND"  # noqa: S608
    " (state IN ('queued', 'running', 'parked') OR updated > {now} - 86400000) GROUP BY 1"
)
_STALLED = (
    f"SELECT id FROM orchestrator_runs WHERE {_FLEET} AND state IN ('running', 'parked')"  # noqa: S608
    " AND owner IS NOT NULL AND lease < {now} ORDER BY id"
)
_FINISHED = f"SELECT count(*) FROM orchestrator_runs WHERE {_FLEET} AND state = 'done' AND updated > ?"  # noqa: S608
_SLOTS = (
    "SELECT agent, (SELECT count(*) FROM orchestrator_slots o"
    " WHERE o.backend = 'agent ' || s.agent AND o.lease > {now}), most FROM segue_fleet.slots s ORDER BY 1"
)


def _worker(row: Row, now: int) -> WorkerStatus:
    id_, host, state, seats, runs, tags, repos, version, started, seen = row
    alive = state != "working" or now - seen < SILENT_MS
    return WorkerStatus(
        *(id_, host, state if alive else "silent", seats, tuple(runs.split()), tuple(tags.split())),
        tuple(repos.split()),
        *(version, started, seen),
    )


def _queue(row: Row, now: int, able: list[WorkerStatus]) -> QueueStatus:
    needs, repo, waiting, later, oldest = row
    key = QueueKey(tuple(json.loads(needs)), repo)
    served = any(key.fits(worker.tags, worker.repos) for worker in able)
    return QueueStatus(key.shown, waiting, later, now - oldest if oldest is not None else None, served)
