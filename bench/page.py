"""How soon every page begins to arrive, and `segue status` ends, on a store with a million events."""

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

from bench.place import SEGUE
from bench.reports import EVENT, RUN, STEP, MadeUpRun
from bench.table import Figure, seconds
from segue.store import connect

TARGET = 0.1
STATUS_TARGET = 0.2
TASKS = 2000
RUNS = 900
"""Runs of a thousand events each, beside the large one; every tenth waits for a person."""


def figures(quick: bool) -> Iterator[Figure]:
    """Ask the real server, over HTTP: the first answer, the median of ten, and of the CPU time they took."""
    events, runs = (10_000, 50) if quick else (100_000, RUNS)
    with tempfile.TemporaryDirectory(prefix="segue-bench-") as folder:
        step = build(Path(folder) / "segue.db", events, runs)
        status = _time_status(Path(folder))
        yield Figure(
            f"`segue status`, {events + runs * 1000:,} events",
            *(seconds(status), "", "", f"≤ {STATUS_TARGET} s"),
            None if quick else status <= STATUS_TARGET,
        )
        with served(Path(folder)) as (address, token, pid):
            for name, path in pages(events, step).items():
                asked = [_first_byte(address, token, path, pid) for _ in range(10)]
                took, cpu = (sorted(part)[5] for part in zip(*asked, strict=True))
                first = f"at first {seconds(asked[0][0])}"
                held = None if quick else max(took, asked[0][0]) <= TARGET
                aim = f"≤ {seconds(TARGET)}"
                yield Figure(
                    f"first byte of {name}", f"{seconds(took)}, CPU {seconds(cpu)}", first, "", aim, held
                )


def _time_status(folder: Path) -> float:
    """Seconds from the start of the command to its end, the median of nine."""
    times = []
    for _ in range(9):
        began = time.perf_counter()
        subprocess.run([SEGUE, "status"], env=_environment(folder), stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - began)
    return sorted(times)[4]


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "SEGUE_STATE_DIR": str(folder), "XDG_STATE_HOME": str(folder / "user")}


def pages(events: int, step: int) -> dict[str, str]:
    large = "/runs/run-000001"
    return {
        "the inbox": "/inbox",
        "the number of things that wait": "/inbox/count.json",
        "the list of runs": "/runs",
        "a search in the list of runs": "/runs?q=app+3&state=needs_human",
        f"a run with {events:,} events": large,
        f"a run with {TASKS:,} tasks": "/runs/many-tasks",
        "a task": f"{large}/tasks/4",
        "the diff of a task": f"{large}/tasks/4/diff",
        "a proof card": f"{large}/tasks/4/proof",
        "the conversation about a task": f"{large}/tasks/4/conversation",
        "the end of that conversation": f"{large}/tasks/4/conversation?end=1",
        "a search in that conversation": f"{large}/tasks/4/conversation?q=todos",
        f"a step among {events:,} events": f"{large}/steps/{step}",
        "all steps": "/steps",
        "all events": "/events",
        "a report": "/recovery",
        "what the doctor says": "/doctor",
        "the palette": "/palette.json?q=app",
    }


def build(path: Path, events: int, runs: int) -> int:
    """Make the data set; the number of a step in the middle of it."""
    connect(path).disconnect()
    with closing(sqlite3.connect(path)) as connection:
        chance = random.Random(1)
        MadeUpRun(1, chance, events).write(connection)
        for number in range(2, runs + 2):
            MadeUpRun(number, chance, 1000).write(connection)
        now = round(time.time() * 1000)
        # The made-up steps are numbered by their ends.
        began = "SELECT min(e.seq) FROM orchestrator_events e WHERE e.run_id = s.run_id AND e.step = s.key"
        connection.execute(
            f"UPDATE orchestrator_steps AS s SET seq = ({began}) WHERE s.run_id = 'run-000001'"
        )
        waits = "UPDATE orchestrator_runs SET state = 'needs_human', source_key = id, updated = ?"
        connection.execute(f"{waits} WHERE CAST(substr(id, 5) AS integer) % 10 = 0", [now])
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
                row = ("many-tasks", step, seq, key, "execute", 1, "claude", None, "done", "{}", output)
                connection.execute(STEP, (*row, at, at + 1000, None))


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, str, int]]:
    argv = [sys.executable, "-m", "segue", "serve", "--port", "0", "--json"]
    with subprocess.Popen(argv, env=_environment(folder), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            said = json.loads(process.stdout.readline())
            token = Path(said["token_file"]).read_text().strip()
            yield f"127.0.0.1:{urlsplit(said['link']).port}", token, process.pid
        finally:
            process.terminate()


def _cpu(pid: int) -> float:
    """Seconds of the processor that a process has used."""
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")


def _first_byte(address: str, token: str, path: str, pid: int) -> tuple[float, float]:
    """Seconds on the clock, and of the processor: others may use this machine too."""
    connection = HTTPConnection(address)
    began, used = time.perf_counter(), _cpu(pid)
    connection.request("GET", path, headers={"authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    answer.read(1)
    took, cpu = time.perf_counter() - began, _cpu(pid) - used
    assert answer.status == 200, answer.read()
    answer.read()  # or the server would be busy with it while the next question is asked
    connection.close()
    return took, cpu
