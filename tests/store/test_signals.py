"""Signals are taken exactly once, by the step that waits, across processes and restarts."""

from __future__ import annotations

import asyncio
import sys

import pytest

from segue.domain.errors import UsageError
from segue.domain.results import StepResult
from segue.store import connect
from tests.store.driving import SPEC, Given, driven, giving, until

SENDER = """
import sys
from segue.store import connect
with connect(sys.argv[1]) as store:
    store.send(sys.argv[2], "stop", {"from": "another process"})
"""


def test_a_signal_of_another_process_is_heard_while_a_step_works(database: str) -> None:
    async def main() -> None:
        with connect(database) as store:
            async with driven(store) as journal:
                release = asyncio.Event()

                async def works(_token: str) -> StepResult[Given]:
                    await release.wait()
                    return StepResult(True, Given())

                working = asyncio.create_task(journal.step("a", Given, works))
                stop = asyncio.create_task(journal.wait("stop"))
                sender = await asyncio.create_subprocess_exec(
                    sys.executable, "-c", SENDER, database, journal.run.id
                )
                assert await sender.wait() == 0
                assert await asyncio.wait_for(stop, 120) == {"from": "another process"}
                assert not working.done()
                release.set()
                await working

    asyncio.run(main())


def test_a_step_that_is_repeated_hears_what_it_heard_before_and_then_goes_on(database: str) -> None:
    heard: list[object] = []

    async def main() -> None:
        with connect(database) as store:
            run = store.create("key", SPEC)
            for number in range(3):
                store.send(run.id, "news", {"n": number})

            async with driven(store, run.id) as journal:

                async def breaks(_token: str) -> StepResult[Given]:
                    heard.append(await journal.wait("news"))
                    heard.append(await journal.wait("news"))
                    raise OSError("killed")

                with pytest.raises(OSError, match="killed"):
                    await journal.step("a", Given, breaks)
            async with driven(store, run.id) as again:

                async def listens(_token: str) -> StepResult[Given]:
                    return StepResult(True, Given(n=[await again.wait("news", 0.01) for _ in range(4)]))

                result = await again.step("a", Given, listens)
        assert heard == [{"n": 0}, {"n": 1}]
        assert result.output.n == [{"n": 0}, {"n": 1}, {"n": 2}, None]

    asyncio.run(main())


def test_a_signal_heard_outside_steps_is_not_heard_again_after_a_restart(database: str) -> None:
    async def main() -> None:
        with connect(database) as store:
            run = store.create("key", SPEC)
            store.send(run.id, "stop", {})
            async with driven(store, run.id) as journal:
                assert await journal.wait("stop", 1) == {}
            async with driven(store, run.id) as again:
                assert await again.wait("stop", 0.01) is None

    asyncio.run(main())


def test_every_waiter_gets_a_signal_of_its_own_and_topics_do_not_mix(database: str) -> None:
    async def main() -> None:
        with connect(database) as store, connect(database) as other:
            async with driven(store) as journal:
                waiters = [asyncio.create_task(journal.wait("news")) for _ in range(5)]
                for number in range(5):
                    other.send(journal.run.id, "other", {})
                    other.send(journal.run.id, "news", {"n": number})
                await until(lambda: all(waiter.done() for waiter in waiters))
                results = [waiter.result() for waiter in waiters]
                assert sorted(result["n"] for result in results if result) == list(range(5))
                await journal.step("a", Given, giving())

    asyncio.run(main())


def test_a_cancelled_wait_takes_nothing(database: str) -> None:
    async def main() -> None:
        with connect(database) as store:
            async with driven(store) as journal:
                waiting = asyncio.create_task(journal.wait("news"))
                await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.wait([waiting])
                store.send(journal.run.id, "news", {"n": 1})
                assert await journal.wait("news", 5) == {"n": 1}

    asyncio.run(main())


def test_a_signal_for_an_unknown_run_is_refused(database: str) -> None:
    with connect(database) as store, pytest.raises(UsageError, match="no run nothing"):
        store.send("nothing", "news", {})
