"""What the torture test kills: processes that drive whatever runs they find.

Started as a program it forks a worker for every line it reads and says its pid. Forking from a process
that has imported everything makes a worker cheap enough to be killed hundreds of times.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from segue.domain.errors import LeaseLost, Locked
from segue.domain.events import AgentText
from segue.domain.results import Nothing, Output, StepFacts, StepResult
from segue.domain.run import RunState
from segue.store import connect
from segue.store.journal import Journal
from segue.store.store import Store
from tests.torture.paid_service import ask

TALK = 5


class Found(Output, frozen=True):
    """The output of every step here."""

    task: int = 0
    answer: dict[str, Any] | None = None


async def talk(journal: Journal, key: str) -> None:
    """Emit numbered events that tell one try of a step from another."""
    attempt = uuid.uuid4().hex
    for number in range(TALK):
        await journal.emit(AgentText(f"{attempt} {number}"), key)
        await asyncio.sleep(0)


async def run_task(journal: Journal, task: int, service: str, reconciles: bool) -> None:
    """One task: plan, launch a paid agent, hear its signal, verify."""

    async def plan(_token: str) -> StepResult[Found]:
        await talk(journal, f"task/{task}/plan/1")
        return StepResult(True, Found(task))

    async def launch(token: str) -> StepResult[Found]:
        await talk(journal, f"task/{task}/launch/1")
        return StepResult(True, Found(task, await asyncio.to_thread(ask, service, "launch", token)))

    async def find(token: str) -> StepResult[Found] | None:
        answer = await asyncio.to_thread(ask, service, "find", token)
        return StepResult(True, Found(task, answer)) if answer["launched"] else None

    async def hear(_token: str) -> StepResult[Found]:
        return StepResult(True, Found(task, await journal.wait("news")))

    async def verify(_token: str) -> StepResult[Found]:
        await talk(journal, f"task/{task}/verify/1")
        return StepResult(task % 2 == 0, Found(task))

    facts = StepFacts(str(task), "execute")
    await journal.step(f"task/{task}/plan/1", Found, plan, facts=facts)
    await journal.step(f"task/{task}/launch/1", Found, launch, find if reconciles else None, facts)
    await journal.step(f"task/{task}/hear/1", Found, hear, facts=facts)
    await journal.sleep(f"task/{task}/sleep/1", time.time() + 0.005)
    await journal.step(f"task/{task}/verify/1", Found, verify, facts=facts)


async def drive(store: Store, run_id: str, service: str, reconciles: bool) -> None:
    """Drive one run to its end, unless somebody else does."""
    try:
        journal = await store.open(run_id)
    except Locked:
        return
    try:
        await asyncio.gather(
            *(run_task(journal, task, service, reconciles) for task in range(int(journal.run.spec.source)))
        )
        await journal.set_state(RunState.DONE)
    except LeaseLost:
        pass
    finally:
        await store.close(journal)


async def work(address: str, service: str, reconciles: bool) -> None:
    """Drive what is left to drive until there is nothing."""
    with connect(address) as store:
        while left := [run.id for run in store.runs() if run.state is not RunState.DONE]:
            await drive(store, random.choice(left), service, reconciles)
            await asyncio.sleep(0.002)


async def compete(address: str, run_id: str, folder: Path, limit: int, rounds: int) -> None:
    """Take slots again and again; inside, hold one of as many file locks, which the kernel counts."""
    with connect(address) as store:
        journal = await store.open(run_id)
        for number in range(len(journal.steps()), rounds):
            async with journal.slot("paid", limit):
                _hold(folder, limit)
                await asyncio.sleep(random.uniform(0, 0.01))
                _held.clear()

            async def nothing(_token: str) -> StepResult[Nothing]:
                return StepResult(True, Nothing())

            await journal.step(f"round/{number}", Nothing, nothing)
        await journal.set_state(RunState.DONE)
        await store.close(journal)


_held: list[object] = []


def _hold(folder: Path, limit: int) -> None:
    for number in range(limit):
        file = (folder / f"seat-{number}").open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            continue
        _held.append(file)
        return
    raise AssertionError(f"more than {limit} at once")


def main() -> None:
    """Fork a worker per line of input: `work SERVICE RECONCILES` or `compete RUN FOLDER LIMIT ROUNDS`."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    import segue.store.journal  # noqa: F401 - before the forks, like everything a worker needs

    address = sys.argv[1]
    if address.startswith("postgres"):
        import psycopg.types.string  # noqa: F401
    for line in sys.stdin:
        what, *words = line.split()
        pid = os.fork()
        if pid:
            sys.stdout.write(f"{pid}\n")
            sys.stdout.flush()
        elif what == "work":
            asyncio.run(work(address, words[0], words[1] == "yes"))
            return
        else:
            asyncio.run(compete(address, words[0], Path(words[1]), int(words[2]), int(words[3])))
            return


if __name__ == "__main__":
    main()
