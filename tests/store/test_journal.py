"""What the journal promises beyond the common check: cancellation, generations, batches, big payloads."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from segue.domain.errors import StoreError
from segue.domain.events import AgentText, AgentTool, NoticeGiven, PromptSent, Recorded
from segue.domain.results import StepResult
from segue.domain.run import RunState, StepState
from segue.store import connect
from tests.patience import unhurried
from tests.store.driving import SPEC, Given, driven, giving, until


def test_a_cancelled_step_stays_open_and_is_entered_again_with_its_token(database: str) -> None:
    tokens: list[str] = []

    async def hangs(token: str) -> StepResult[Given]:
        tokens.append(token)
        await asyncio.Event().wait()
        raise AssertionError

    async def main() -> None:
        with connect(database) as store:
            async with driven(store) as journal:
                task = asyncio.create_task(journal.step("a", Given, hangs))
                await until(lambda: bool(tokens))
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert journal.state("a") is StepState.STARTED
                await journal.step("a", Given, giving(calls=tokens))
            types = [event.type for event in store.events(journal.run.id)]
        assert tokens[0] == tokens[1]
        assert types == ["step.started", "step.adopted", "step.ended"]

    asyncio.run(main())


def test_reconcile_that_finds_nothing_lets_the_work_begin_again(database: str) -> None:
    calls: list[str] = []

    async def breaks(_token: str) -> StepResult[Given]:
        raise OSError("no network")

    async def finds_nothing(token: str) -> StepResult[Given] | None:
        calls.append(f"find {token}")
        return None

    async def main() -> None:
        with connect(database) as store:
            async with driven(store) as journal:
                with pytest.raises(OSError, match="no network"):
                    await journal.step("a", Given, breaks, finds_nothing)
                await journal.step("a", Given, giving(calls=calls), finds_nothing)
        token = calls[1]
        assert calls == [f"find {token}", token]

    asyncio.run(main())


def test_a_result_that_may_wait_is_stored_with_the_next_intent(database: str) -> None:
    stored: list[str] = []

    async def may_wait(_token: str) -> StepResult[Given]:
        return StepResult(True, Given("first"), soon=True)

    async def main() -> None:
        with connect(database) as store, connect(database) as other:
            async with driven(store) as journal:
                first = await journal.step("a", Given, may_wait)
                journal.once_stored(lambda: stored.append("a"))
                # Nothing was awaited since the result, so its timer has not run either.
                assert [step.state for step in other.steps(journal.run.id)] == [StepState.STARTED]
                assert first.output.text == "first"
                assert stored == []

                async def looks(_token: str) -> StepResult[Given]:
                    states = [step.state for step in other.steps(journal.run.id)]
                    assert states == [StepState.DONE, StepState.STARTED]
                    assert stored == ["a"]
                    return StepResult(True, Given("second"))

                await journal.step("b", Given, looks)
                journal.once_stored(lambda: stored.append("b"))
                assert stored == ["a", "b"]

    asyncio.run(main())


def test_a_step_is_not_entered_twice_at_once(database: str) -> None:
    async def main() -> None:
        with connect(database) as store:
            async with driven(store) as journal:
                both = await asyncio.gather(
                    journal.step("a", Given, giving()),
                    journal.step("a", Given, giving()),
                    return_exceptions=True,
                )
                assert sorted(type(one).__name__ for one in both) == ["StepResult", "ValueError"]

    asyncio.run(main())


def test_what_is_returned_first_is_what_a_replay_returns(database: str) -> None:
    async def main() -> None:
        with connect(database) as store:
            async with driven(store) as journal:
                first = await journal.step("a", Given, giving(n=(1, 2)))
            async with driven(store, journal.run.id) as again:
                assert await again.step("a", Given, giving()) == first == StepResult(True, Given(n=[1, 2]))

    asyncio.run(main())


def test_redo_survives_a_restart_before_the_step_is_repeated(database: str) -> None:
    async def main() -> None:
        with connect(database) as store:
            async with driven(store) as journal:
                for key in ("task/1/a", "task/10/a", "task/1/b"):
                    await journal.step(key, Given, giving())
                await journal.redo("task/1/")
            async with driven(store, journal.run.id) as again:
                assert [step.key for step in again.steps()] == ["task/10/a"]
                await again.redo("task/1/")
                await again.step("task/1/a", Given, giving())
                await again.redo("task/1/a")
                await again.step("task/1/a", Given, giving())
                assert [(step.key, step.gen) for step in again.steps("task/1")] == [
                    ("task/10/a", 1),
                    ("task/1/a", 3),
                ]

    asyncio.run(main())


def test_events_of_a_step_are_stored_when_its_result_is(database: str) -> None:
    async def main() -> None:
        with connect(database) as store:
            async with driven(store) as journal:

                async def chatty(_token: str) -> StepResult[Given]:
                    for number in range(2500):
                        await journal.emit(AgentText(str(number)), "a")
                    return StepResult(True, Given())

                await journal.step("a", Given, chatty)
                stored = list(store.events(journal.run.id))
                assert [event.data["text"] for event in stored[1:-1]] == [str(n) for n in range(2500)]
                assert {event.step for event in stored} == {"a"}

    asyncio.run(main())


def test_a_prompt_is_stored_once_and_events_only_name_it(database: str) -> None:
    seen: list[Recorded] = []

    def observe(event: Recorded) -> None:
        seen.append(event)

    async def main() -> None:
        with connect(database) as store:
            for _ in range(2):
                journal = await store.open(store.create("key", SPEC).id, [observe])
                await journal.emit(PromptSent("d1", 6, "do it\x00"))
                await store.close(journal)
            assert store.prompt("d1") == "do it\x00"
            assert store.prompt("d2") is None
            assert [len(batch) for batch in store.table("prompts")] == [1]
            assert [recorded.event for recorded in seen] == [PromptSent("d1", 6)] * 2
            assert list(store.events(journal.run.id)) == seen[1:]

    asyncio.run(main())


def test_a_sleep_keeps_its_first_instant_across_a_restart(database: str) -> None:
    async def main(factor: float) -> None:
        with connect(database) as store:
            async with driven(store) as journal:
                until_instant = time.time() + 0.3 * factor
                task = asyncio.create_task(journal.sleep("nap", until_instant))
                await until(lambda: journal.run.state is RunState.PARKED or task.done())
                assert not task.done(), "the machine is slow"
                task.cancel()
                await asyncio.wait([task])
            parked = store.run(journal.run.id)
            assert parked is not None
            assert (parked.state, parked.wake) == (RunState.PARKED, int(until_instant * 1000))
            async with driven(store, journal.run.id) as again:
                await again.sleep("nap", time.time() + 3600)
                assert time.time() >= until_instant
                assert again.run.state is RunState.RUNNING
                await again.sleep("nap", time.time() + 3600)

    unhurried(lambda factor: asyncio.run(main(factor)))


def test_the_run_is_parked_until_the_first_of_several_sleeps_ends(database: str) -> None:
    async def main() -> None:
        now = time.time()
        with connect(database) as store:
            async with driven(store) as journal:
                late = asyncio.create_task(journal.sleep("late", now + 3600))
                await until(lambda: journal.run.wake == int((now + 3600) * 1000))
                soon = now + 0.5
                early = asyncio.create_task(journal.sleep("early", soon))
                await until(lambda: journal.run.wake == int(soon * 1000) or early.done())
                await early
                assert journal.run.wake == int((now + 3600) * 1000)
                assert journal.run.state is RunState.PARKED
                late.cancel()
                await asyncio.wait([late])

    asyncio.run(main())


def test_what_cannot_be_stored_is_refused_where_it_is_emitted(database: str) -> None:
    async def main() -> None:
        with connect(database) as store:
            async with driven(store) as journal:
                bad = AgentTool("x", {"x": object()})
                with pytest.raises(TypeError):
                    await journal.emit(bad)
                await journal.emit(NoticeGiven("fine"))
            assert [event.seq for event in store.events(journal.run.id)] == [1]

    asyncio.run(main())


def test_nothing_else_waits_for_a_database_that_another_process_writes_to(tmp_path: Path) -> None:
    async def main() -> None:
        with (
            connect(tmp_path / "segue.db") as store,
            closing(sqlite3.connect(tmp_path / "segue.db")) as other,
        ):
            async with driven(store) as journal:
                await journal.step("a", Given, giving())
                other.execute("BEGIN IMMEDIATE")
                writing = asyncio.create_task(journal.step("b", Given, giving()))
                for _ in range(20):
                    await asyncio.sleep(0)
                assert not writing.done(), "and this loop still runs"
                other.rollback()
                assert (await writing).ok
            assert [step.key for step in store.steps(journal.run.id)] == ["a", "b"]

    asyncio.run(main())


def test_a_write_that_fails_leaves_no_open_transaction(tmp_path: Path) -> None:
    file = tmp_path / "segue.db"

    async def main(other: sqlite3.Connection) -> None:
        with connect(file) as store:
            async with driven(store) as journal:
                await journal.step("a", Given, giving())
                other.execute("DROP TABLE orchestrator_steps")
                with pytest.raises(StoreError, match="no such table"):
                    await journal.step("b", Given, giving())
                other.execute("BEGIN IMMEDIATE")
                other.rollback()

    with closing(sqlite3.connect(file)) as other, pytest.raises(StoreError, match="no such table"):
        asyncio.run(main(other))
