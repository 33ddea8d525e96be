"""A database that goes away in the middle of a run: nothing is lost, nothing doubled, nobody else drives."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from segue.domain.errors import StoreError
from segue.domain.events import AgentTool, NoticeGiven, PromptSent
from segue.domain.results import StepResult, to_json
from segue.domain.run import RunState, StepState
from segue.store import connect
from segue.store.spool import Spool
from segue.store.store import Store
from tests.store.cluster import Cluster, own_cluster
from tests.store.driving import SPEC, Given, driven, giving, until
from tests.store.test_claim import set_owner

AWKWARD = Given("a\x00b\x10 \udcff \U0001f600", 1e300)


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


def patient(cluster: Cluster, folder: Path, patience: float = 300.0) -> Store:
    return connect(cluster.url, spools=folder, patience=patience)


async def away(cluster: Cluster) -> None:
    await asyncio.to_thread(cluster.stop)


async def back(cluster: Cluster) -> None:
    await asyncio.to_thread(cluster.start)


def test_a_run_goes_on_while_the_database_is_away_and_everything_is_there_afterwards(
    cluster: Cluster, tmp_path: Path
) -> None:
    seen: list[int] = []
    tokens: list[str] = []

    async def main() -> None:
        with patient(cluster, tmp_path) as store:
            run = store.create("key", SPEC)
            spool = Spool(tmp_path, run.id)
            journal = await store.open(run.id, [lambda event: seen.append(event.seq)])
            await journal.step("before", Given, giving())
            waiting = asyncio.create_task(journal.wait("news"))

            async def work(token: str) -> StepResult[Given]:
                """The intent is on the disk before the effect, even now."""
                tokens.append(token)
                assert token in spool.path.read_text()
                for number in range(50):
                    await journal.emit(AgentTool(AWKWARD.text, {"number": number}), "during")
                return StepResult(True, AWKWARD)

            await away(cluster)
            await journal.emit(PromptSent(f"d-{run.id}", 3, "what to do\x00"))
            await journal.step("during", Given, work)
            await journal.record("noted", StepResult(True, Given(x=1)))
            await journal.set_state(RunState.NEEDS_HUMAN, "look")
            await back(cluster)
            await until(lambda: not spool.exists())
            await journal.step("after", Given, giving())
            await asyncio.to_thread(store.send, run.id, "news", {"n": 1})
            assert await asyncio.wait_for(waiting, 120) == {"n": 1}
            await store.close(journal)
            events = list(store.events(run.id))
            assert [event.seq for event in events] == seen == list(range(1, len(seen) + 1))
            steps = {step.key: step for step in store.steps(run.id)}
            assert {step.state for step in steps.values()} == {StepState.DONE}
            assert list(steps) == ["before", "during", "noted", "after"]
            assert (steps["during"].output, steps["during"].token) == (to_json(AWKWARD), tokens[0])
            assert store.prompt(f"d-{run.id}") == "what to do\x00"
            ended = store.run(run.id)
            assert ended is not None
            assert (ended.state, ended.note, ended.owner) == (RunState.NEEDS_HUMAN, "look", None)

    asyncio.run(main())


def test_when_patience_ends_the_run_stops_and_the_next_process_finds_everything(
    cluster: Cluster, tmp_path: Path
) -> None:
    calls: list[str] = []

    async def forever(token: str) -> StepResult[Given]:
        calls.append(token)
        await asyncio.Event().wait()
        raise AssertionError

    async def main() -> str:
        with patient(cluster, tmp_path, BRIEF) as store:
            journal = await store.open(store.create("key", SPEC).id)
            await away(cluster)
            await journal.step("a", Given, giving(x=1))
            with pytest.raises(StoreError, match="was away for too long") as caught:
                await journal.step("b", Given, forever)
            assert str(Spool(tmp_path, journal.run.id).path) in caught.value.kept
            assert f"segue resume {journal.run.id}" in caught.value.hint
            with pytest.raises(StoreError, match="was away for too long"):
                await journal.emit(NoticeGiven(""))
            with pytest.raises(StoreError, match="was away for too long"):
                await store.close(journal)
            return journal.run.id

    run_id = asyncio.run(main())
    cluster.start()
    assert_known_nowhere(cluster, run_id)

    async def resume() -> None:
        with patient(cluster, tmp_path) as store:
            async with driven(store, run_id) as journal:
                assert not Spool(tmp_path, run_id).exists()
                assert (await journal.step("a", Given, giving(x=2))).output == Given(x=1)
                await journal.step("b", Given, giving(calls=calls))
            found = list(store.events(run_id))
            assert [event.seq for event in found] == list(range(1, len(found) + 1))
            assert sum(event.type.startswith("step.") for event in found) == 5

    asyncio.run(resume())
    assert len(calls) == 2
    assert calls[0] == calls[1]


def assert_known_nowhere(cluster: Cluster, run_id: str) -> None:
    with connect(cluster.url) as store:
        assert store.steps(run_id) == []


WORKER = """
import asyncio, sys
from pathlib import Path
from segue.domain.results import StepResult
from segue.store import connect
from segue.domain.events import NoticeGiven
from tests.store.driving import Given

async def main():
    store = connect(sys.argv[1], spools=Path(sys.argv[2]), patience=60)
    journal = await store.open(sys.argv[3])
    print("open", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    for number in range(20):
        async def work(token):
            print(token, flush=True)
            await journal.emit(NoticeGiven("x", number))
            return StepResult(True, Given(n=number))
        await journal.step(f"step/{number}", Given, work)
    print("done", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_a_process_that_is_killed_while_the_database_is_away_loses_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    with connect(cluster.url) as store:
        run = store.create("key", SPEC)
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, cluster.url, str(tmp_path), run.id],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdout is not None
    assert worker.stdin is not None
    assert worker.stdout.readline() == "open\n"
    cluster.stop()
    worker.stdin.write("\n")
    worker.stdin.flush()
    tokens = [worker.stdout.readline().strip() for _ in range(20)]
    assert worker.stdout.readline() == "done\n"
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    worker.stdin.close()
    worker.stdout.close()
    spool = Spool(tmp_path, run.id)
    with spool.path.open("ab") as file:
        file.write(b'{"n": 99, "after"')  # as if it was killed in the middle of a line
    cluster.start()

    async def resume() -> None:
        with patient(cluster, tmp_path) as store:
            async with driven(store, run.id) as journal:
                assert [step.token for step in journal.steps()] == tokens
                for number in range(20):
                    assert (await journal.step(f"step/{number}", Given, giving())).output == Given(n=number)
            found = list(store.events(run.id))
            assert [event.seq for event in found] == list(range(1, len(found) + 1))
            assert sum(not event.type.startswith("wait.") for event in found) == 60

    asyncio.run(resume())
    assert not spool.exists()


@pytest.mark.parametrize("cut", [0, 7])
def test_a_replay_that_was_interrupted_changes_nothing_twice(
    cluster: Cluster, tmp_path: Path, cut: int
) -> None:
    """The buffer is still there although a part of it, or all, was replayed."""

    async def main() -> None:
        with patient(cluster, tmp_path, BRIEF) as store:
            journal = await store.open(store.create("key", SPEC).id)
            await away(cluster)
            for number in range(4):
                await journal.step(f"step/{number}", Given, giving())
            with pytest.raises(StoreError):
                await store.close(journal)
            await back(cluster)
            spool = Spool(tmp_path, journal.run.id)
            whole = spool.path.read_bytes()
            lines = whole.splitlines(keepends=True)
            spool.path.write_bytes(b"".join([*lines[: cut + 1], lines[-1]]))
            for content in (None, whole, whole):
                if content:
                    spool.path.write_bytes(content)
                await store.close(await store.open(journal.run.id))
                assert not spool.exists()
            found = list(store.events(journal.run.id))
            assert [event.seq for event in found] == list(range(1, len(found) + 1))
            assert sum(event.type.startswith("step.") for event in found) == 8
            assert {step.state for step in store.steps(journal.run.id)} == {StepState.DONE}

    asyncio.run(main())


def test_a_run_that_went_on_elsewhere_is_not_overwritten(cluster: Cluster, tmp_path: Path) -> None:
    async def main() -> None:
        with patient(cluster, tmp_path / "here", BRIEF) as here:
            journal = await here.open(here.create("key", SPEC).id)
            run_id = journal.run.id
            await journal.step("a", Given, giving())
            await away(cluster)
            await journal.step("b", Given, giving(x=True))
            with pytest.raises(StoreError):
                await here.close(journal)
            await back(cluster)
        set_owner(cluster.url, run_id, "elsewhere/boot/1/1#x", -1)
        with patient(cluster, tmp_path / "there") as there:
            async with driven(there, run_id) as journal:
                await journal.step("b", Given, giving(x=False))
        with patient(cluster, tmp_path / "here") as here:
            with pytest.raises(StoreError, match="continued elsewhere") as caught:
                await here.open(run_id)
            [aside] = (tmp_path / "here").glob("*.aside")
            assert str(aside) in caught.value.kept
            async with driven(here, run_id) as journal:
                assert (await journal.step("b", Given, giving())).output == Given(x=False)

    asyncio.run(main())
