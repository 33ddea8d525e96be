"""A database that goes away in the middle of a run: nothing is lost, nothing doubled, nobody else drives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from segue.domain.errors import StoreError
from segue.domain.events import AgentTool, NoticeGiven, Recorded, WaitBegan, WaitEnded
from segue.domain.results import StepResult
from segue.domain.run import StepState
from segue.store import connect
from segue.store.store import Store
from tests.store.cluster import Cluster, own_cluster
from tests.store.driving import SPEC, Given, driven, giving, until


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with own_cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(server: Cluster) -> Cluster:
    """A running server, whatever the test before has left."""
    server.start()
    return server


BRIEF = 6.0
"""Seconds that end in the test, but not before a slow machine has written a few steps."""


def patient(cluster: Cluster, patience: float = 300.0) -> Store:
    return connect(cluster.url, patience=patience)


async def away(cluster: Cluster) -> None:
    await asyncio.to_thread(cluster.stop)


async def back(cluster: Cluster) -> None:
    await asyncio.to_thread(cluster.start)


def test_thirty_seconds_without_the_database_stop_nothing(cluster: Cluster) -> None:
    """An agent at work continues, the event loop never waits, and afterwards everything is there once."""
    seen: list[int] = []
    kinds: list[type] = []
    begun = asyncio.Event()

    def observe(event: Recorded) -> None:
        seen.append(event.seq)
        kinds.append(type(event.event))

    async def main() -> None:
        with patient(cluster) as store:
            journal = await store.open(store.create("key", SPEC).id, [observe])
            waiting = asyncio.create_task(journal.wait("news"))

            async def work(_token: str) -> StepResult[Given]:
                begun.set()
                for number in range(300):
                    await journal.emit(AgentTool("tool", {"number": number}), "during")
                    await asyncio.sleep(0.1)
                return StepResult(True, Given(x=1))

            working = asyncio.create_task(journal.step("during", Given, work))
            await begun.wait()
            await away(cluster)
            await until(lambda: WaitBegan in kinds)
            longest, before = 0.0, time.monotonic()
            while not working.done() and len(seen) < 300:
                await asyncio.sleep(0.01)
                longest, before = max(longest, time.monotonic() - before), time.monotonic()
            assert longest < 5, "nothing on the event loop waits for the database"
            await back(cluster)
            assert (await working).output == Given(x=1)
            await until(lambda: WaitEnded in kinds)
            await journal.step("after", Given, giving())
            await asyncio.to_thread(store.send, journal.run.id, "news", {"n": 1})
            assert await asyncio.wait_for(waiting, 120) == {"n": 1}
            await store.close(journal)
            events = list(store.events(journal.run.id))
            assert [event.seq for event in events] == seen == list(range(1, len(seen) + 1))
            assert {step.key: step.state for step in store.steps(journal.run.id)} == {
                "during": StepState.DONE,
                "after": StepState.DONE,
            }

    asyncio.run(main())


def test_when_patience_ends_the_run_is_parked_and_the_next_process_continues_it(cluster: Cluster) -> None:
    calls: list[str] = []

    async def forever(token: str) -> StepResult[Given]:
        calls.append(token)
        await asyncio.Event().wait()
        raise AssertionError

    async def main() -> str:
        with patient(cluster, BRIEF) as store:
            journal = await store.open(store.create("key", SPEC).id)
            await journal.step("a", Given, giving(x=1))
            working = asyncio.create_task(journal.step("b", Given, forever))
            await until(lambda: bool(calls))
            await away(cluster)
            await journal.emit(NoticeGiven("x"))
            with pytest.raises(StoreError, match="was away for too long") as caught:
                await working
            assert f"segue resume {journal.run.id}" in caught.value.hint
            with pytest.raises(StoreError, match="was away for too long"):
                await journal.emit(NoticeGiven("x"))
            with pytest.raises(StoreError, match="was away for too long"):
                await store.close(journal)
            return journal.run.id

    run_id = asyncio.run(main())
    cluster.start()

    async def resume() -> None:
        with patient(cluster) as store:
            async with driven(store, run_id) as journal:
                assert (await journal.step("a", Given, giving(x=2))).output == Given(x=1)
                await journal.step("b", Given, giving(calls=calls))
            found = list(store.events(run_id))
            assert [event.seq for event in found] == list(range(1, len(found) + 1))

    asyncio.run(resume())
    assert len(calls) == 2
    assert calls[0] == calls[1], "the same token finds what was begun"


def test_to_open_a_run_waits_without_blocking_the_event_loop(cluster: Cluster) -> None:
    async def main() -> None:
        with patient(cluster) as store:
            run = store.create("key", SPEC)
            await away(cluster)
            opening = asyncio.create_task(store.open(run.id))
            for _ in range(20):
                await asyncio.wait_for(asyncio.sleep(0.05), 5)
            assert not opening.done()
            await back(cluster)
            await store.close(await opening)

    asyncio.run(main())


def test_a_store_that_is_closed_while_the_database_is_away_does_not_wait(cluster: Cluster) -> None:
    async def main() -> None:
        with patient(cluster) as store:
            kinds: list[type] = []
            run = store.create("key", SPEC)
            journal = await store.open(run.id, [lambda event: kinds.append(type(event.event))])
            await away(cluster)
            await journal.emit(NoticeGiven("x"))
            await until(lambda: WaitBegan in kinds)
            with pytest.raises(StoreError):
                await asyncio.wait_for(store.close(journal), 120)

    asyncio.run(main())
