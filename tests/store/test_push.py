"""Runs that began on SQLite, pushed into Postgres: whole, once, and never over what is alive there."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from segue.domain.errors import Locked, StoreError
from segue.domain.events import AgentTool, PromptSent
from segue.domain.results import StepFacts
from segue.domain.run import RunState
from segue.store import connect
from segue.store.database import open_database
from segue.store.journal import Journal
from segue.store.push import BATCH_ROWS, Pushed, push_run
from segue.store.rows import TABLES
from tests.store.driving import Given, driven, giving
from tests.store.test_claim import set_owner

AWKWARD: dict[str, Any] = {
    "text": "a\x00b\x10c \udcff \U0001f600",
    "n": [1, 2.5, 1e300, -0.0, None],
    "d": {"\x00": 1},
}


def work(address: str, run_id: str | None = None, key: str = "a", events: int = 3) -> str:
    """Do a step with some events, a prompt and a signal."""

    async def main() -> str:
        with connect(address) as store:
            async with driven(store, run_id) as journal:
                store.send(journal.run.id, "news", AWKWARD)
                await journal.wait("news", 5)
                await emit(journal, key, events)
                facts = StepFacts(task="1", phase="execute", build_phase="schema", input=Given(**AWKWARD))
                await journal.step(key, Given, giving(**AWKWARD), facts=facts)
                await journal.set_state(RunState.DONE, "all \x00 done")
            return journal.run.id

    return asyncio.run(main())


async def emit(journal: Journal, key: str, events: int) -> None:
    await journal.emit(PromptSent(f"digest {key}", 1, f"do {key}\x00\udcff"), key)
    for number in range(events):
        await journal.emit(AgentTool(AWKWARD["text"], {**AWKWARD, "number": number}), key)


def push(source: str, target: str, run_id: str) -> Pushed:
    with closing(open_database(source)) as here, closing(open_database(target)) as there:
        return push_run(here, there, run_id)


def content(address: str) -> dict[str, list[dict[str, Any]]]:
    with connect(address, read_only=True) as store:
        return {table: [row for batch in store.table(table) for row in batch] for table in TABLES}


@pytest.fixture
def source(tmp_path: Path) -> str:
    return str(tmp_path / "segue.db")


@pytest.fixture
def target(postgres: str) -> str:
    connect(postgres).disconnect()
    return postgres


def test_a_pushed_run_is_the_same_there(source: str, target: str) -> None:
    run_id = work(source, events=BATCH_ROWS * 2 + 7)
    work(source)
    pushed = push(source, target, run_id)
    assert (pushed.events, pushed.steps, pushed.prompts) == (BATCH_ROWS * 2 + 10, 1, 1)
    here, there = content(source), content(target)
    for table, rows in here.items():
        name = "id" if table == "runs" else "run_id"
        if table != "prompts":
            assert [row for row in rows if row[name] == run_id] == there[table], table
    assert [row["text"] for row in there["prompts"]] == ["do a\x00\udcff"]


def test_pushing_again_pushes_nothing_and_what_is_new_is_pushed_alone(source: str, target: str) -> None:
    run_id = work(source)
    push(source, target, run_id)
    assert push(source, target, run_id) == Pushed(run_id, is_news=False)
    work(source, run_id, "b", events=4)
    pushed = push(source, target, run_id)
    assert (pushed.events, pushed.steps, pushed.prompts) == (7, 2, 1)
    assert content(source) == content(target)


def test_what_was_open_here_is_closed_there_later(source: str, target: str) -> None:
    async def interrupted() -> str:
        with connect(source) as store:
            async with driven(store) as journal:
                with pytest.raises(ZeroDivisionError):
                    await journal.step("a", Given, fails)
            return journal.run.id

    async def fails(_token: str) -> Any:
        raise ZeroDivisionError

    run_id = asyncio.run(interrupted())
    push(source, target, run_id)
    work(source, run_id)
    push(source, target, run_id)
    assert content(source) == content(target)
    assert [row["state"] for row in content(target)["steps"]] == ["done"]


def test_a_run_that_was_pushed_can_be_driven_there_and_is_not_overwritten_then(
    source: str, target: str
) -> None:
    run_id = work(source)
    push(source, target, run_id)
    work(target, run_id, "there")
    before = content(target)
    with pytest.raises(StoreError, match="continued there"):
        push(source, target, run_id)
    work(source, run_id, "here", events=50)
    with pytest.raises(StoreError, match="continued there"):
        push(source, target, run_id)
    assert content(target) == before


@pytest.mark.parametrize("place", ["here", "there"])
def test_a_run_that_is_being_driven_is_not_pushed(source: str, target: str, place: str) -> None:
    run_id = work(source)
    push(source, target, run_id)
    work(source, run_id, "b")
    set_owner(source if place == "here" else target, run_id, "elsewhere/boot/1/1#x", 60_000)
    with pytest.raises(Locked):
        push(source, target, run_id)
    assert len(content(target)["steps"]) == 1


KILLED = """
import os, signal, sys
from segue.store import push
from segue.store.database import open_database
left = int(sys.argv[4])
push.BATCH_ROWS = 10
def merge(*args, **more):
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    return true_merge(*args, **more)
true_merge, push.merge = push.merge, merge
push.push_run(open_database(sys.argv[1]), open_database(sys.argv[2]), sys.argv[3])
"""


def test_a_push_that_is_killed_goes_on_where_it_stopped(source: str, target: str) -> None:
    merges = 0
    run_id = work(source, events=100)
    killed = subprocess.run([sys.executable, "-c", KILLED, source, target, run_id, str(merges)])
    assert killed.returncode == -signal.SIGKILL
    with connect(target, read_only=True) as store:
        assert store.runs() == [], "a run of which a part is missing can be driven"
        stored = len(list(store.events(run_id)))
    pushed = push(source, target, run_id)
    assert (stored, pushed.events) == (expected := min(max(merges - 1, 0) * 10, 103), 103 - expected)
    assert content(source) == content(target)
