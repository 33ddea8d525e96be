"""Schedules: runs that begin again and again, at the times a cron expression names (in UTC)."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from segue.domain.errors import UsageError
from segue.parts.fleet.queue import dequeue, schedule
from segue.parts.fleet.submit import Submission, submit_once
from segue.store.database import ask, transact
from segue.store.postgres import Postgres

if TYPE_CHECKING:
    import procrastinate

    from segue.parts.fleet.register import Register
    from segue.runtime.app import App


logger = logging.getLogger(__name__)


class CronSchedule(Struct, frozen=True):
    """One schedule."""

    name: str
    cron: str
    submission: Submission
    submitter: str
    created: int
    last: int | None = None
    """When it began its last run, in milliseconds since the epoch."""

    def next(self, after: float) -> datetime:
        """Return when it is due next."""
        return datetime.fromtimestamp(_next(self.cron, after), UTC)


def check_cron(cron: str) -> str:
    """Return a cron expression with five fields; UsageError explains what is wrong with another one."""
    from croniter import croniter  # type: ignore[import-untyped]

    if len(cron.split()) != 5 or not croniter.is_valid(cron):
        raise UsageError(
            f"{cron!r} is not a cron expression.",
            hint="Five fields: minute hour day month weekday, e.g. '0 3 * * 1-5' for workdays at 03:00 UTC",
        )
    return cron


def read_schedules(database: Postgres, name: str | None = None) -> list[CronSchedule]:
    """Return all schedules, or the one with this name."""
    rows = ask(
        database,
        "SELECT name, cron, submission, submitter, created, last FROM segue_fleet.schedules"
        " WHERE name = coalesce(?, name) ORDER BY name",
        name,
    )
    return [
        CronSchedule(row[0], row[1], msgspec.convert(json.loads(row[2]), Submission), *row[3:])
        for row in rows
    ]


async def add(
    queue: procrastinate.App, database: Postgres, name: str, cron: str, what: Submission
) -> datetime:
    """Add a schedule; return when it is due first."""
    found = CronSchedule(name, check_cron(cron), what, what.submitter, int(time.time() * 1000))

    def write(_again: bool) -> int:
        return database.change(
            "INSERT INTO segue_fleet.schedules VALUES (?, ?, ?, ?, {now}) ON CONFLICT DO NOTHING",
            name,
            cron,
            json.dumps(msgspec.to_builtins(what)),
            what.submitter,
        )

    if transact(database, write) != 1:
        raise UsageError(f"There is a schedule {name!r} already.", hint=f"segue schedule remove {name}")
    due = found.next(time.time())
    await schedule(queue, name, due)
    return due


async def remove(queue: procrastinate.App, database: Postgres, name: str) -> None:
    """Remove a schedule; runs that it has begun continue."""
    sql = "DELETE FROM segue_fleet.schedules WHERE name = ?"
    if transact(database, lambda _again: database.change(sql, name)) != 1:
        raise UsageError(f"There is no schedule {name!r}.", hint="segue schedule list")
    await dequeue(queue, f"schedule/{name}")


async def fire(queue: procrastinate.App, app: App, name: str) -> None:
    """Begin the run that is due, once however often this is called, and schedule the next one."""
    with closing(Postgres(app.database())) as database:
        found = await asyncio.to_thread(read_schedules, database, name)
        if not found:
            return
        due = _last_due(found[0].cron, time.time())
        if due * 1000 > (found[0].last or found[0].created):
            run = f"{datetime.fromtimestamp(due, UTC):%Y%m%d-%H%M%S}-{name}"
            logger.info("schedule %s begins run %s", name, run)
            await submit_once(app, queue, run, found[0].submission)
            sql = "UPDATE segue_fleet.schedules SET last = ? WHERE name = ?"
            await asyncio.to_thread(
                transact, database, lambda _again: database.execute(sql, int(due * 1000), name)
            )
        await schedule(queue, name, found[0].next(time.time()))


async def keep(queue: procrastinate.App, register: Register) -> None:
    """See to it that every schedule has its next run in the queue."""
    for name, cron, last in await asyncio.to_thread(register.idle_schedules):
        now = time.time()
        missed = _last_due(cron, now) * 1000 > last  # while no worker was there; it is begun late, once
        await schedule(queue, name, datetime.fromtimestamp(now if missed else _next(cron, now), UTC))


def _last_due(cron: str, now: float) -> float:
    from croniter import croniter

    return float(croniter(cron, datetime.fromtimestamp(now, UTC)).get_prev(float))


def _next(cron: str, after: float) -> float:
    from croniter import croniter

    return float(croniter(cron, datetime.fromtimestamp(after, UTC)).get_next(float))
