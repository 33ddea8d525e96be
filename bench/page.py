"""How soon the page of a run with 100,000 events begins to arrive, and those beside it."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from bench.reports import EVENT, RUN, STEP, MadeUpRun
from bench.table import Figure, seconds
from segue.store import connect

TARGET = 0.2
TASKS = 2000


def figures(quick: bool) -> Iterator[Figure]:
    """Ask the real server, over HTTP: the median of ten answers."""
    events = 10_000 if quick else 100_000
    with tempfile.TemporaryDirectory(prefix="segue-bench-") as folder:
        step = _build(Path(folder) / "segue.db", events)
        with _served(Path(folder)) as (address, token):
            for name, path in _pages(events, step).items():
                took = sorted(_first_byte(address, token, path) for _ in range(10))[5]
                aim = f"≤ {seconds(TARGET)}" if name.startswith("a run") else ""
                held = took <= TARGET if aim and not quick else None
                yield Figure(f"first byte of {name}", seconds(took), "", "", aim, held)


def _pages(events: int, step: int) -> dict[str, str]:
    return {
        f"a run with {events:,} events": "/runs/run-000001",
        f"a step among {events:,} events": f"/runs/run-000001/steps/{step}",
        f"a run with {TASKS:,} tasks": "/runs/many-tasks",
        "the list of runs": "/runs",
    }


def _build(path: Path, events: int) -> int:
    """Make the data set; the number of a step in the middle of it."""
    connect(path).disconnect()
    with closing(sqlite3.connect(path)) as connection:
        MadeUpRun(1, random.Random(1), events).write(connection)
        _many_tasks(connection)
        connection.commit()
        steps = "SELECT seq FROM orchestrator_steps WHERE run_id = 'run-000001' AND task = '4' ORDER BY seq"
        [step] = connection.execute(steps).fetchone()
    return int(step)


def _many_tasks(connection: sqlite3.Connection) -> None:
    """A run of many short tasks."""
    titles = {str(number): f"Task number {number}" for number in range(TASKS)}
    spec = {"source_kind": "planfile", "source": "plan.md", "repo": "/r", "flow": "execute", "titles": titles}
    text = json.dumps({**spec, "agent": "claude", "model": None})
    began = 1_790_000_000_000
    connection.execute(RUN, ("many-tasks", "plan.md", "plan", text, "done", began, began + TASKS * 1000))
    output = json.dumps({"verdict": {"result": "PASS", "action": "PROCEED", "reason": "changed"}})
    seq = 0
    for key in titles:
        step = f"task/{key}/execute/1"
        facts = {"gen": 1, "token": "t", "task": key, "phase": "execute", "agent": "claude"}
        for place, kind, data in (
            (None, "task.started", {"task": key, "title": titles[key]}),
            (step, "step.started", facts),
            (step, "prompt", {"digest": "d", "length": 1}),
            (step, "agent.ended", {"ok": True, "usage": {"input_tokens": 5, "output_tokens": 5}}),
            (step, "step.ended", {"gen": 1, "ok": True}),
            (None, "commit", {"task": key, "commit": "c" * 40}),
            (None, "task.ended", {"task": key, "done": True}),
        ):
            seq += 1
            at = began + seq * 250
            connection.execute(EVENT, ("many-tasks", seq, at, place, kind, json.dumps(data)))
            if kind == "step.started":
                row = ("many-tasks", step, seq, key, "execute", 1, "claude", None, "done", output)
                connection.execute(STEP, (*row, at, at + 1000, None))


@contextmanager
def _served(folder: Path) -> Iterator[tuple[str, str]]:
    argv = [sys.executable, "-m", "segue", "serve", "--port", "0", "--json"]
    env = {**os.environ, "SEGUE_STATE_DIR": str(folder), "XDG_STATE_HOME": str(folder / "user")}
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            said = json.loads(process.stdout.readline())
            yield f"127.0.0.1:{urlsplit(said['link']).port}", Path(said["token_file"]).read_text().strip()
        finally:
            process.terminate()


def _first_byte(address: str, token: str, path: str) -> float:
    connection = HTTPConnection(address)
    began = time.perf_counter()
    connection.request("GET", path, headers={"authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    answer.read(1)
    took = time.perf_counter() - began
    assert answer.status == 200, answer.read()
    connection.close()
    return took
