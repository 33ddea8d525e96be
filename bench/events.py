"""How fast events are stored, beside plain inserts of the same rows into the same file."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from bench.table import Figure
from segue.domain.events import AgentText, AgentThought, AgentTool, Event, PatchMade
from segue.domain.run import RunSpec
from segue.store import connect
from segue.store.events import FLUSH_EVENTS

TARGET = 0.5
RECORDS = 0.9
"""What the records of attempts may leave of the speed."""

Row = tuple[str, int, int, str | None, str, str]


def figures(quick: bool) -> Iterator[Figure]:
    """Append events by the store and by hand, in turns."""
    count = 20_000 if quick else 100_000
    ours: list[float] = []
    raw: list[float] = []
    encoding: list[float] = []
    with tempfile.TemporaryDirectory(prefix="segue-bench-") as folder:
        path = Path(folder) / "segue.db"
        for turn in range(5):
            run, took = append(path, count)
            ours.append(took)
            raw.append(insert(path, run, f"raw{turn}"))
            encoding.append(insert(path, run, f"encoding{turn}", encode=True))
    speed = count / median(ours)
    for name, target, times in (("", TARGET, raw), (" and `json.dumps`", None, encoding)):
        yardstick = count / median(times)
        yield Figure(
            f"events appended, {count:,}",
            f"{speed:,.0f}/s",
            f"raw `executemany`{name} {yardstick:,.0f}/s",
            f"{speed / yardstick:.0%}",
            f"≥ {target:.0%}" if target else "",
            speed / yardstick >= target if target else None,
        )
    yield _figure_records(quick)


def _figure_records(quick: bool) -> Figure:
    """Compare the processor's time for what an agent says and does, with and without such records."""
    count = 10_000 if quick else 50_000
    plain: list[float] = []
    full: list[float] = []
    with tempfile.TemporaryDirectory(prefix="segue-bench-") as folder:
        path = Path(folder) / "segue.db"
        for _ in range(5):
            plain.append(append(path, count, list_events(count, records=False), time.process_time)[1])
            full.append(append(path, count, list_events(count, records=True), time.process_time)[1])
    share = min(plain) / min(full)
    return Figure(
        f"{count:,} texts and tool calls, with thoughts and patches, CPU",
        f"{count / min(full):,.0f}/s",
        f"without them {count / min(plain):,.0f}/s",
        f"{share:.0%}",
        f"≥ {RECORDS:.0%}",
        share >= RECORDS,
    )


def list_events(count: int, records: bool) -> list[Event]:
    """Make up what agents say and do: a patch of 4 kB every 200 events, and a thought every 50."""
    found: list[Event] = []
    given = {"file_path": "/repo/src/file.ts", "old_string": "const a = 1;\n" * 20}
    for n in range(count):
        found.append(
            AgentTool("Edit", given, f"call{n}") if n % 2 else AgentText(f"Line {n} of what it says.")
        )
        if records and n % 50 == 49:
            found.append(AgentThought("The test fails because the session is read before it is written."))
        if records and n % 200 == 199:
            diff = "+const answer = await ask(question)\n" * 115
            found.append(PatchMade("1", base="0" * 40, head="1" * 40, tree="2" * 40, files=3, diff=diff))
    return found


def append(
    address: str | Path,
    count: int,
    made: list[Event] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[str, float]:
    """Seconds until all events of a run are stored, and the run."""
    events = made or [AgentText(f"Line {n} of what it says.") for n in range(count)]

    async def emit(run: str) -> float:
        journal = await store.open(run)
        before = clock()
        for event in events:
            await journal.emit(event, "task/1/execute/1")
        await store.close(journal)
        return clock() - before

    with connect(address) as store:
        run = store.create("bench", RunSpec("planfile", "plan.md", ".", "command", "execute"))
        return run.id, asyncio.run(emit(run.id))


def insert(path: Path, run: str, new_run: str, encode: bool = False) -> float:
    """Seconds for plain inserts of the same rows, in batches as large and as safe against power loss.

    With `encode` the data are made into JSON on the way, as the store has to.
    """
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        select = "SELECT run_id, seq, ts, step, type, data FROM orchestrator_events WHERE run_id = ?"
        rows: list[Row] = [(new_run, *row[1:]) for row in connection.execute(select, (run,))]
        values = [json.loads(row[5]) for row in rows]
        before = time.perf_counter()
        for start in range(0, len(rows), FLUSH_EVENTS):
            batch = rows[start : start + FLUSH_EVENTS]
            if encode:
                texts = map(json.dumps, values[start : start + FLUSH_EVENTS])
                batch = [(*row[:5], text) for row, text in zip(batch, texts, strict=True)]
            _insert_batch(connection, batch)
        return time.perf_counter() - before
    finally:
        connection.close()


def _insert_batch(connection: sqlite3.Connection, rows: list[Row]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(
        "INSERT INTO orchestrator_events (run_id, seq, ts, step, type, data) VALUES (?, ?, ?, ?, ?, ?)", rows
    )
    connection.execute("COMMIT")
