"""Slots: counted across stores, given back on every way out, taken over from the dead."""

from __future__ import annotations

import asyncio

import pytest

from segue.store import connect
from segue.store.database import open_database
from tests.store.driving import driven, until


def held(database: str) -> list[int]:
    connection = open_database(database)
    rows = connection.execute("SELECT n FROM orchestrator_slots ORDER BY n")
    connection.close()
    return [n for (n,) in rows]


def test_a_slot_is_given_back_after_an_error_and_after_being_cancelled(database: str) -> None:
    async def main() -> None:
        with connect(database) as store:
            async with driven(store) as journal:

                async def fails() -> None:
                    async with journal.slot("paid", 1):
                        assert held(database) == [1]
                        raise OSError("broken")

                async def hangs() -> None:
                    async with journal.slot("paid", 1):
                        await asyncio.Event().wait()

                with pytest.raises(OSError, match="broken"):
                    await fails()
                task = asyncio.create_task(hangs())
                await until(lambda: held(database) == [1])
                task.cancel()
                await asyncio.wait([task])
                assert held(database) == []

    asyncio.run(main())


def test_who_is_cancelled_while_waiting_holds_nothing(database: str) -> None:
    async def main() -> None:
        with connect(database) as store:
            async with driven(store) as journal, journal.slot("paid", 1):

                async def takes() -> None:
                    async with journal.slot("paid", 1):
                        raise AssertionError("there was only one")

                for pause in range(5):
                    task = asyncio.create_task(takes())
                    await asyncio.sleep(pause / 1000)
                    task.cancel()
                    await asyncio.wait([task])
                    assert task.cancelled()
                assert held(database) == [1]

    asyncio.run(main())


def test_slots_of_the_dead_and_of_the_silent_are_taken_over(database: str) -> None:
    async def main() -> None:
        with connect(database) as store:
            async with driven(store) as journal:
                connection = open_database(database)
                for n, owner, lease in ((1, "elsewhere/b/1/1#x", -1), (2, "elsewhere/b/2/2#x", 60_000)):
                    connection.execute(
                        "INSERT INTO orchestrator_slots VALUES ('paid', ?, ?, {now} + ?, 'run')",
                        n,
                        owner,
                        lease,
                    )
                connection.close()
                async with journal.slot("paid", 2):
                    assert held(database) == [1, 2]

    asyncio.run(main())


def test_the_heartbeat_renews_slots(database: str) -> None:
    async def main() -> None:
        with connect(database) as store:
            async with driven(store) as journal, journal.slot("paid", 1):
                connection = open_database(database)
                connection.execute("UPDATE orchestrator_slots SET lease = 0")
                assert store._keeper is not None
                await store._keeper.renew()
                [(renewed,)] = connection.execute("SELECT lease > {now} FROM orchestrator_slots")
                connection.close()
                assert renewed

    asyncio.run(main())
