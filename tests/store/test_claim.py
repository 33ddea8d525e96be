"""One owner at a time: dead ones are replaced at once, silent ones after their lease, lost ones stop."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from segue.domain.errors import LeaseLost, Locked, StoreError
from segue.domain.events import NoticeGiven
from segue.domain.results import StepResult
from segue.store import connect
from segue.store.claim import is_gone, new_owner
from segue.store.database import open_database
from segue.system import identity
from tests.store.driving import SPEC, Given, driven, giving, until

HOLDER = """
import asyncio, sys
from segue.store import connect
async def main():
    store = connect(sys.argv[1])
    await store.open(sys.argv[2])
    print("holding", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


def set_owner(address: str, run_id: str, owner: str, lease_ms: int) -> None:
    """Pretend that somebody elsewhere holds the run."""
    database = open_database(address)
    sql = "UPDATE orchestrator_runs SET owner = ?, claimed = {now}, lease = {now} + ? WHERE id = ?"
    database.execute(sql, owner, lease_ms, run_id)
    database.close()


def test_a_living_process_keeps_its_run_and_a_killed_one_is_replaced_at_once(database: str) -> None:
    with connect(database) as store:
        run = store.create("key", SPEC)
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLDER, database, run.id], stdout=subprocess.PIPE, text=True
        )
        assert holder.stdout is not None
        assert holder.stdout.readline() == "holding\n"
        with pytest.raises(Locked) as caught:
            asyncio.run(open_and_close(store, run.id))
        assert f"process {holder.pid} on {identity.host()} since" in caught.value.message
        assert f"segue stop {run.id}" in caught.value.hint
        held = store.run(run.id)
        assert held is not None
        assert held.owner == identity.identify(holder.pid)
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        holder.stdout.close()
        asyncio.run(open_and_close(store, run.id))


async def open_and_close(store: Any, run_id: str) -> None:
    async with driven(store, run_id):
        pass


def test_a_holder_on_another_machine_is_replaced_after_its_lease_only(database: str) -> None:
    async def main() -> None:
        with connect(database) as store:
            run = store.create("key", SPEC)
            set_owner(database, run.id, "elsewhere/boot/1/1#x", 600_000)
            with pytest.raises(Locked, match="process 1 on elsewhere"):
                await store.open(run.id)
            set_owner(database, run.id, "elsewhere/boot/1/1#x", -1)
            await open_and_close(store, run.id)

    asyncio.run(main())


def test_who_may_be_replaced() -> None:
    mine = new_owner()
    assert not is_gone(mine, lease=100, now=50)
    assert not is_gone(mine, lease=0, now=10**15), "this process lives, its machine only slept"
    assert is_gone("elsewhere/b/1/1#x", lease=9, now=10)
    assert not is_gone("elsewhere/b/1/1#x", lease=10, now=10)
    assert is_gone(f"{identity.host()}/another boot/1/1#x", lease=10**15, now=0)
    unknown = f"{identity.host()}/{identity.boot()}/{os.getpid()}/-#x"
    assert is_gone(unknown, lease=10**15, now=0) == (identity.start_time(os.getpid()) != "-")


def test_two_claims_of_one_process_do_not_pass_each_others_fence(database: str) -> None:
    async def main() -> None:
        with connect(database) as one, connect(database) as two:
            run = one.create("key", SPEC)
            first = await one.open(run.id)
            await first.step("a", Given, giving())
            set_owner(database, run.id, "elsewhere/boot/1/1#x", -1)
            second = await two.open(run.id)
            with pytest.raises(LeaseLost):
                await first.step("b", Given, giving())
            with pytest.raises(LeaseLost):
                await first.emit(NoticeGiven(""))
            await second.step("b", Given, giving(text="second"))
            with pytest.raises(LeaseLost):
                await one.close(first)
            await second.step("c", Given, giving())
            await two.close(second)
            assert [step.key for step in one.steps(run.id)] == ["a", "b", "c"]
            assert [event.seq for event in one.events(run.id)] == list(range(1, 7))

    asyncio.run(main())


def test_a_journal_that_lost_its_run_is_interrupted_in_the_middle_of_its_work(database: str) -> None:
    entered = asyncio.Event()

    async def hangs(_token: str) -> StepResult[Given]:
        entered.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def main() -> None:
        with connect(database) as store:
            run = store.create("key", SPEC)
            journal = await store.open(run.id)
            working = asyncio.create_task(journal.step("a", Given, hangs))
            waiting = asyncio.create_task(journal.wait("stop"))
            await entered.wait()
            assert store._keeper is not None
            await store._keeper.renew()
            assert not working.done()
            set_owner(database, run.id, "elsewhere/boot/1/1#x", 600_000)
            await store._keeper.renew()
            await until(lambda: working.done() and waiting.done())
            assert isinstance(working.exception(), LeaseLost)
            assert isinstance(waiting.exception(), LeaseLost)
            with pytest.raises(LeaseLost):
                await store.close(journal)
            kept = store.run(run.id)
            assert kept is not None
            assert kept.owner == "elsewhere/boot/1/1", "the new owner is left alone"

    asyncio.run(main())


def test_a_claim_that_is_cancelled_leaves_the_run_free(database: str) -> None:
    async def main() -> None:
        with connect(database) as store:
            run = store.create("key", SPEC)
            for pause in (0, 0.0005, 0.001, 0.002, 0.004):
                opening = asyncio.create_task(store.open(run.id))
                await asyncio.sleep(pause)
                if not opening.cancel():
                    await store.close(opening.result())
                await asyncio.wait([opening])
            await open_and_close(store, run.id)

    asyncio.run(main())


def test_nothing_is_written_after_the_store_was_closed(database: str) -> None:
    async def main() -> None:
        with connect(database) as store:
            journal = await store.open(store.create("key", SPEC).id)
            await journal.emit(NoticeGiven(""))
        with pytest.raises(StoreError):
            await journal.emit(NoticeGiven(""))

    asyncio.run(main())
