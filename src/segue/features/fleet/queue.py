"""The queue: a job of Procrastinate says "drive this run". Our lease decides who may."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from segue.features.fleet.git.addresses import canonical_url
from segue.features.fleet.schema import QUEUE_SCHEMA
from segue.store.address import for_driver
from segue.store.postgres import CHANNEL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import procrastinate
    import psycopg
    from procrastinate.jobs import Job

logger = logging.getLogger(__name__)

HAS = "has:"
"""How a need begins for an agent that is ready, or a program."""
ANY = "any"
"""What runs need that need nothing special."""
NEWS = "queue"
"""What workers watch for: something was put into the queue."""
DRIVE = "segue.drive"

RunDriver = Callable[[str], Awaitable[None]]


class QueueKey(Struct, frozen=True):
    """What the runs of one queue have in common."""

    needs: tuple[str, ...]
    repo: str

    @property
    def name(self) -> str:
        """What it is called in the database, where names have to be short."""
        return hashlib.sha256("\n".join((self.repo, *self.needs)).encode()).hexdigest()[:24]

    def fits(self, tags: Collection[str], repos: Iterable[str], agents: Collection[str]) -> bool:
        """Return whether a worker has and may what these runs need, as far as one can tell from afar.

        Of programs that are not `agents`, only the worker knows whether it has them.
        """
        return is_allowed(self.repo, repos) and all(_could_have(tags, need, agents) for need in self.needs)


class QueueEntry(Struct, frozen=True):
    """A run that waits for a worker."""

    run: str
    key: QueueKey
    priority: int = 0
    at: datetime | None = None


def key_of(needs: Iterable[str], url: str) -> QueueKey:
    """Return the queue of runs with these needs, of this repository."""
    return QueueKey(tuple(sorted(set(needs))), canonical_url(url))


def is_allowed(repo: str, patterns: Iterable[str]) -> bool:
    """Return whether one of the patterns of a worker's owner allows a repository."""
    return any(fnmatchcase(repo, pattern.removesuffix(".git")) for pattern in patterns)


def _could_have(tags: Collection[str], need: str, agents: Collection[str]) -> bool:
    if not need.startswith(HAS):
        return need in tags
    wanted = need.removeprefix(HAS).split("|")
    return any(HAS + name in tags for name in wanted) or not set(wanted) <= set(agents)


def lock_of(run: str) -> str:
    """Return what keeps a run from waiting twice."""
    return f"run/{run}"


def make_queue(address: str, drive: RunDriver | None = None) -> procrastinate.App:
    """Return Procrastinate's app on our database; `drive` does the work, on a worker."""
    import procrastinate

    async def into_schema(connection: psycopg.AsyncConnection[Any]) -> None:
        before = connection.autocommit  # who listens needs it: otherwise nothing would be heard
        await connection.set_autocommit(True)
        await connection.execute(f"SET search_path TO {QUEUE_SCHEMA}")
        await connection.set_autocommit(before)

    connector = procrastinate.PsycopgConnector(
        conninfo=for_driver(address),
        min_size=1,
        max_size=4,
        timeout=10,
        configure=into_schema,
        kwargs={"application_name": "segue fleet", "prepare_threshold": None},
    )
    queue = procrastinate.App(connector=connector)
    queue.job_manager.finish_job = partial(_finish, queue)  # type: ignore[method-assign]

    @queue.task(name=DRIVE)
    async def drive_run(run: str, **_more: Any) -> None:
        if drive is not None:
            await drive(run)

    return queue


async def _finish(queue: procrastinate.App, job: Job, status: object, delete_job: bool) -> None:  # noqa: ARG001
    """Delete a job that was seen to.

    Procrastinate raises if it is gone, where nobody catches it: so it is for a worker that was frozen for a
    while, and whose jobs others have taken over.
    """
    await _ask(queue, "DELETE FROM procrastinate_jobs WHERE id = %(id)s RETURNING id", id=job.id)


@asynccontextmanager
async def open_queue(address: str) -> AsyncIterator[procrastinate.App]:
    """Open the queue to put something in."""
    queue = make_queue(address)
    async with queue.open_async():
        yield queue


async def enqueue(queue: procrastinate.App, entries: Sequence[QueueEntry]) -> None:
    """Let runs be driven; one that waits already is left as it is."""
    await _put(queue, [_job(entry) for entry in entries])
    logger.debug("enqueued %s", [entry.run for entry in entries])
    await _ask(queue, "SELECT pg_notify(%(channel)s, %(news)s)", channel=CHANNEL, news=NEWS)


async def dequeue(queue: procrastinate.App, lock: str) -> None:
    """Take back a job that waits."""
    await _ask(
        queue,
        "DELETE FROM procrastinate_jobs WHERE queueing_lock = %(lock)s AND status = 'todo' RETURNING id",
        lock=lock,
    )


async def _put(queue: procrastinate.App, jobs: Sequence[Job]) -> None:
    from procrastinate.exceptions import AlreadyEnqueued

    try:
        await queue.job_manager.batch_defer_jobs_async(jobs=list(jobs))
    except AlreadyEnqueued:
        if len(jobs) > 1:  # one of them waits already, so none was put in
            for job in jobs:
                await _put(queue, [job])


def _job(entry: QueueEntry) -> Job:
    from procrastinate.jobs import Job

    return Job(
        id=None,
        queue=entry.key.name,
        lock=None,
        queueing_lock=lock_of(entry.run),
        task_name=DRIVE,
        priority=entry.priority,
        task_kwargs={
            "run": entry.run,
            "needs": list(entry.key.needs),
            "repo": entry.key.repo,
        },
        scheduled_at=entry.at,
    )


async def _ask(queue: procrastinate.App, sql: str, **values: object) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = await queue.connector.execute_query_all_async(sql, **values)
    return rows
