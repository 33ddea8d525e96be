"""A clock that was set back by 40 days: no negative duration, no longer wait, and runs keep their order."""

from __future__ import annotations

import asyncio
import time

from segue.domain.events import RunEnded, RunResumed, RunStarted, TaskStarted
from segue.domain.run import RunState
from segue.store import connect
from segue.store.database import open_database, transact
from segue.view.load import load_view
from tests.store.driving import SPEC, Given, driven, giving

DAYS = 40 * 86_400_000
FACTS = ("plan.md", "/repo", "scripted", "execute")


def set_clock_back(database: str, run: str) -> None:
    """Make everything that was written look as if it had been written by a clock that was ahead."""
    connection = open_database(database)

    def move(_again: bool) -> None:
        for table, columns in (
            ("runs", ("created", "updated")),
            ("steps", ("started", "ended")),
            ("events", ("ts",)),
        ):
            changes = ", ".join(f"{column} = {column} + {DAYS}" for column in columns)
            name = "id" if table == "runs" else "run_id"
            connection.execute(f"UPDATE orchestrator_{table} SET {changes} WHERE {name} = ?", run)

    transact(connection, move)
    connection.close()


def test_nothing_that_follows_is_shorter_than_nothing(database: str) -> None:
    async def main() -> None:
        with connect(database) as store:
            async with driven(store) as journal:
                run = journal.run.id
                await journal.emit(RunStarted(*FACTS))
                await journal.emit(TaskStarted("1", "Write one"))
                await journal.step("task/1/execute/1", Given, giving())
            set_clock_back(database, run)
            async with driven(store, run) as journal:
                await journal.emit(RunResumed(*FACTS))
                await journal.step("task/1/execute/2", Given, giving())
                await journal.emit(RunEnded("done"))
                await journal.set_state(RunState.DONE)
            times = [event.ts for event in store.events(run)]
            assert times == sorted(times)
            assert all(step.ended is not None and step.ended >= step.started for step in store.steps(run))
            [summary] = store.query(
                "SELECT updated - created AS ms FROM orchestrator_runs WHERE id = ?", [run]
            )
            assert summary["ms"] >= 0
            found = store.run(run)
            assert found is not None
            view = load_view(store, found)
            assert 0 <= view.seconds(time.time()) < 3600
            later = store.create("key", SPEC)
            assert [one.id for one in store.runs()] == [later.id, run]

    asyncio.run(main())


def test_a_sleep_lasts_no_longer_than_it_was_meant_to(database: str) -> None:
    async def main() -> None:
        with connect(database) as store:
            async with driven(store) as journal:
                run, until = journal.run.id, time.time() + 1.0 + DAYS / 1000
                sleep = asyncio.create_task(journal.sleep("park/1", until))
                while journal.state("park/1") is None:
                    await asyncio.sleep(0.01)
                sleep.cancel()
                await asyncio.wait({sleep})
            set_clock_back(database, run)
            async with asyncio.timeout(300), driven(store, run) as journal:
                await journal.sleep("park/1", until)

    asyncio.run(main())
