"""What the fleet does: its workers, the queue, what is stalled, and how much gets done."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from segue.features.fleet.queue import QueueKey
from segue.features.fleet.register import SILENT_MS
from segue.runtime.registry import names

if TYPE_CHECKING:
    from segue.store.store import Store


_HOUR = 3_600_000
_SHOWN = 10
"""Runs of a queue that are named."""


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
    """The runs of one repository that wait with the same needs."""

    repo: str
    needs: tuple[str, ...]
    waiting: int
    later: int
    """Of these, the ones that begin at a given time or when a usage limit ends."""
    oldest: int | None
    """How long the first of them has been waiting, in milliseconds."""
    served: bool
    """Whether a worker that is alive can take them."""
    runs: tuple[str, ...] = ()
    """The runs that are taken next, at most ten."""


class FleetStatus(Struct, frozen=True):
    """The fleet at a glance."""

    now: int
    workers: tuple[WorkerStatus, ...] = ()
    queues: tuple[QueueStatus, ...] = ()
    states: dict[str, int] = field(default_factory=dict)
    """How many runs of the fleet are in which state; those that ended count for a day."""
    stalled: tuple[str, ...] = ()
    """Runs whose worker is silent; another one takes them over."""
    finished_hour: int = 0
    """Runs that were finished in the last hour."""


def read_status(store: Store) -> FleetStatus:
    """Read everything."""
    [row] = store.query("SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint) AS now")
    now = int(row["now"])
    workers = _workers(store, now)
    able = [worker for worker in workers if worker.state == "working"]
    [done] = store.query(_FINISHED, [now - _HOUR])
    return FleetStatus(
        now,
        workers,
        tuple(_queue(row, now, able) for row in store.query(_QUEUES)),
        {row["state"]: row["runs"] for row in store.query(_STATES, [now - 24 * _HOUR])},
        tuple(row["id"] for row in store.query(_STALLED, [now])),
        done["runs"],
    )


_WORKERS = (
    "SELECT id, host, state, seats, runs, tags, repos, version, started, seen FROM segue_fleet.workers"
    " WHERE state = 'working' OR seen > ? ORDER BY started"
)
_DRIVEN = (
    "SELECT p.place, r.id FROM orchestrator_runs r JOIN segue_fleet.places p ON p.run_id = r.id"
    " WHERE r.state IN ('running', 'parked') AND r.owner IS NOT NULL AND r.lease >= ? ORDER BY p.since, r.id"
)
_QUEUES = (
    "SELECT args->>'repo' AS repo, args->>'needs' AS needs, count(*) AS waiting,"  # noqa: S608
    " count(CASE WHEN scheduled_at > now() THEN 1 END) AS later,"
    " min(CASE WHEN scheduled_at IS NULL OR scheduled_at <= now() THEN r.created END) AS oldest,"
    f" (array_agg(j.args->>'run' ORDER BY scheduled_at NULLS FIRST, priority DESC, j.id))[1:{_SHOWN}] AS runs"
    " FROM procrastinate.procrastinate_jobs j LEFT JOIN orchestrator_runs r ON r.id = j.args->>'run'"
    " WHERE j.status = 'todo' AND j.task_name = 'segue.drive' GROUP BY 1, 2 ORDER BY 1, 2"
)
_FLEET = "spec->>'origin' IS NOT NULL"
_STATES = (
    f"SELECT state, count(*) AS runs FROM orchestrator_runs WHERE {_FLEET}"  # noqa: S608
    " AND (state IN ('queued', 'running', 'parked') OR updated > ?) GROUP BY 1"
)
_STALLED = (
    f"SELECT id FROM orchestrator_runs WHERE {_FLEET} AND state IN ('running', 'parked')"  # noqa: S608
    " AND owner IS NOT NULL AND lease < ? ORDER BY id"
)
_FINISHED = (
    f"SELECT count(*) AS runs FROM orchestrator_runs WHERE {_FLEET}"  # noqa: S608
    " AND state = 'done' AND updated > ?"
)


def _workers(store: Store, now: int) -> tuple[WorkerStatus, ...]:
    """Return the workers, each with what its machine drives now: what it says itself is some seconds old."""
    driven: dict[str, list[str]] = {}
    for row in store.query(_DRIVEN, [now]):
        driven.setdefault(row["place"], []).append(row["id"])
    found = store.query(_WORKERS, [now - 10 * 60_000])
    named = {run for row in found for run in row["runs"].split()}
    last = {_machine(row): row["id"] for row in found if row["state"] == "working"}
    return tuple(
        _worker(row, now, _at_work(row, driven.get(_machine(row), []), named, last)) for row in found
    )


def _machine(row: Mapping[str, Any]) -> str:
    return str(row["id"].rpartition("/")[0])


def _at_work(
    row: Mapping[str, Any], driven: Iterable[str], named: set[str], last: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the runs of a worker; what no worker of the machine has named yet is that of the newest."""
    own, newest = row["runs"].split(), last.get(_machine(row)) == row["id"]
    return tuple(run for run in driven if run in own or (newest and run not in named))


def _worker(row: Mapping[str, Any], now: int, runs: tuple[str, ...]) -> WorkerStatus:
    silent = row["state"] == "working" and now - row["seen"] >= SILENT_MS
    words = {name: tuple(row[name].split()) for name in ("tags", "repos")}
    return WorkerStatus(**{**row, **words, "state": "silent" if silent else row["state"], "runs": runs})


def _queue(row: Mapping[str, Any], now: int, able: list[WorkerStatus]) -> QueueStatus:
    key = QueueKey(tuple(json.loads(row["needs"])), row["repo"])
    agents = names("agents")
    return QueueStatus(
        key.repo,
        key.needs,
        row["waiting"],
        row["later"],
        now - row["oldest"] if row["oldest"] is not None else None,
        any(key.fits(worker.tags, worker.repos, agents) for worker in able),
        tuple(row["runs"]),
    )
