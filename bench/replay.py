"""How long it takes to decide again about a thousand recorded attempts, under another checks policy."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from bench.reports import RUN, STEP, MadeUpRun
from bench.table import Figure, seconds
from segue.store import connect

TARGET = 60.0
TASKS = 10


def figures(quick: bool) -> Iterator[Figure]:
    """Replay runs of ten tasks with one check each, and a tenth of them to compare with."""
    runs = 20 if quick else 100
    with tempfile.TemporaryDirectory(prefix="segue-bench-") as folder:
        path = Path(folder) / "segue.db"
        names = _build(path, runs)
        few, took = _replay(path, names[: runs // 10]), _replay(path, names)
        yield Figure(
            f"replay of {runs * TASKS:,} attempts under another checks policy",
            seconds(took),
            f"a tenth of them {seconds(few)}",
            f"× {took / few:.1f}",
            f"≤ {seconds(TARGET)}",
            took <= TARGET if not quick else None,
        )


def _replay(path: Path, names: list[str]) -> float:
    began = time.perf_counter()
    command = [sys.executable, "-m", "segue", "replay", *names, "--checks", "pytest*", "--json"]
    subprocess.run(
        [*command, "--database-url", str(path)], cwd=path.parent, check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - began


def _build(path: Path, runs: int) -> list[str]:
    """Record runs whose linter complained about every attempt, while their tests passed."""
    connect(path).disconnect()
    chance = random.Random(1)
    checks = [
        {"command": "pytest -q", "exit_code": 0, "output": "12 passed\n" * 300, "state": "passed"},
        {"command": "ruff check", "exit_code": 1, "output": "E501\n" * 1000, "state": "failed"},
    ]
    with closing(sqlite3.connect(path)) as connection:
        made = [MadeUpRun(number, chance, 32) for number in range(runs)]
        for one in made:
            for task in map(str, range(1, TASKS + 1)):
                one.launch(task, "execute", 1, "backend")
                one.step(task, "check", 1, "backend", False, {"checks": checks})
                one.step(task, "end", 1, "backend", False, {"reason": "checks failed: ruff check"})
            spec = {"source_kind": "planfile", "source": "plan.md", "repo": "/r", "flow": "execute"}
            text = json.dumps({**spec, "agent": one.agent, "phases": ["execute", "check"]})
            connection.execute(RUN, (one.name, "plan.md", "plan", text, "done", one.began, one.clock))
            connection.executemany(STEP, one.steps)
        connection.commit()
    return [one.name for one in made]
