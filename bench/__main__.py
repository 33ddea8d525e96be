"""Measure what Segue costs, in five figures beside their yardsticks: `python -m bench`.

Startup (and what one task imports), a task without and with a commit, the sandbox, proving, and the store.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from statistics import median, median_grouped

from bench.place import TRUE, Place, place
from segue.domain.events import AgentText
from segue.domain.run import RunSpec
from segue.domain.task import TaskKind
from segue.proof.execute import SealOptions
from segue.proof.seal import Sealer
from segue.store import connect

Row = tuple[str, str, str, str]
"""What was measured, our figure, the yardstick, and the target."""

OUTSIDE = ("--isolation", "none")
NOTHING = ("--commit", "never", "--allow-no-change")
TASKS = 100

_LIST = """
import json, sys
from segue.cli.main import run
code = run(sys.argv[1:])
files = [module.__file__ for name, module in sys.modules.items() if name.partition(".")[0] == "segue"]
print(json.dumps([file for file in files if file]))
sys.exit(code)
"""
"""Runs a command of Segue, and lists which of its modules are imported at the end."""
_WORK = """
echo 'def double(number): return 2 * number' > app.py
cat > test_app.py <<'END'
import unittest
from app import double
class DoubleTest(unittest.TestCase):
    def test_double(self):
        self.assertEqual(double(3), 6)
END
"""


def startup() -> Iterator[Row]:
    """Measure the time until the first agent runs, and count the lines that one task imports."""
    times, python = [], []
    with place() as here:
        stamp = here.folder / "stamp"
        agent = ("sh", "-c", f"date +%s%N > {stamp}")
        for number in range(5):
            plan = here.write_plan(TASKS, f"{number}.md")
            command = here.command("run", plan, "--task", "1", "--quiet", *NOTHING, argv=agent)
            began = time.time_ns()
            here.run([*command, *OUTSIDE])
            times.append((int(stamp.read_text()) - began) / 1e9)
            began = time.time_ns()
            here.run([sys.executable, "-c", "pass"])
            python.append((time.time_ns() - began) / 1e9)
        yield (
            f"start to first agent, {TASKS} tasks",
            f"{median(times):.3f} s",
            f"`python -c pass` {median(python):.3f} s",
            "≤ 0.2 s",
        )
        words = here.command("run", here.write_plan(1), "--quiet", argv=("sh", "-c", _WORK))[1:]
        checked = here.run([sys.executable, "-c", _LIST, *words], SEGUE_CHECKS="python3 -m unittest -q")
        listed = json.loads(checked.splitlines()[-1])
        lines = sum(Path(file).read_bytes().count(b"\n") for file in listed)
        yield "one task with one check imports", f"{lines:,} lines", f"{len(listed)} modules", "≤ 18,000"


def task() -> Iterator[Row]:
    """Measure tasks whose agent does nothing, and tasks that write a file and end with a commit."""
    yield _measure("a task that does nothing", (TRUE,), (*NOTHING, *OUTSIDE), "≤ +5 ms")
    write = ("sh", "-c", 'echo done > "work-$SEGUE_TASK"')
    yield _measure("a task with a file and a commit", write, OUTSIDE, "≤ +10 ms", commits=True)


def sandbox() -> Iterator[Row]:
    """Measure tasks in the sandbox, whose agents do nothing."""
    yield _measure("a task in the sandbox", (TRUE,), NOTHING, "≤ +20 ms")


def _measure(
    what: str, argv: tuple[str, ...], options: tuple[str, ...], target: str, commits: bool = False
) -> Row:
    """Compare the time between the ends of two tasks with the bare process, and with git's commits."""
    with place() as here:
        here.run(here.command("run", here.write_plan(TASKS), "--quiet", *options, argv=argv))
        with connect(here.folder / "state" / "segue.db", read_only=True) as store:
            [run] = store.runs()
            ends = [step.ended or 0 for step in store.steps(run.id) if step.phase == "end"]
        ours = median_grouped([after - before for before, after in pairwise(ends)])
        bare = median(_run_bare(here, argv, f"bare-{number}", commits) for number in range(40)) * 1000
    name = "process, `git add`, `git commit`" if commits else "process"
    return what, f"{ours:.1f} ms", f"{name} {bare:.1f} ms, +{ours - bare:.1f} ms", target


def _run_bare(here: Place, argv: Sequence[str], name: str, commits: bool) -> float:
    began = time.perf_counter()
    here.run(argv, SEGUE_TASK=name)
    if commits:
        here.run(["git", "add", "--all"])
        here.run(["git", "commit", "--quiet", "--message=Bare"])
    return time.perf_counter() - began


_PYTEST = ["env", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", sys.executable, "-m", "pytest", "-q"]
_CODE = "def add(a, b):\n    return a + b\n"
_MEAN = "\n\ndef mean(values):\n    if not values:\n        return 0\n    return sum(values) / len(values)\n"
_TESTS = """from calc import mean


def test_mean():
    assert mean([1, 3]) == 2


def test_none():
    assert mean([]) == 0
"""
_SUITE = """import time

import pytest

from calc import add


@pytest.mark.parametrize("one", range(10))
def test_add(one):
    time.sleep({})
    assert add(one, 1) == one + 1
"""


def proving() -> Iterator[Row]:
    """Measure all proving of a task that adds a function and its tests, over one bare run of the suite."""
    for seconds, target in ((1, "≤ +2 s"), (10, "≤ 1.3 ×")):
        with place() as here:
            base = here.commit({"calc.py": _CODE, "test_add.py": _SUITE.format(seconds / 10)})
            began = time.monotonic()
            here.run(_PYTEST)
            bare = time.monotonic() - began
            head = here.commit({"calc.py": _CODE + _MEAN, "test_mean.py": _TESTS})
            ours = asyncio.run(_check(here, base, head))
        difference = f"+{ours - bare:.1f} s, {ours / bare:.2f} ×"
        yield f"proving a suite of {seconds} s", f"{ours:.1f} s", f"bare {bare:.1f} s, {difference}", target


async def _check(here: Place, base: str, head: str) -> float:
    """Return how long a check takes whose base is known, as it is from the task before."""
    sealer = Sealer(here.repo, here.repo / ".git", here.folder / "seal", SealOptions(timeout=4000))
    await sealer.survey(_PYTEST, base)
    began = time.monotonic()
    found = await sealer.check(_PYTEST, base, head, kind=TaskKind.BUILD, measured=True)
    if not found.proved or found.blunt:
        raise RuntimeError(f"The check proves nothing: {found}")
    return time.monotonic() - began


def store() -> Iterator[Row]:
    """Measure how fast events are stored, beside plain inserts of the same rows."""
    with tempfile.TemporaryDirectory(prefix="segue-bench-") as folder:
        path = Path(folder) / "segue.db"
        ours = asyncio.run(_append(path, 50_000))
        with closing(sqlite3.connect(path)) as connection:
            rows = connection.execute("SELECT run_id || 'x', seq, ts, type, data FROM orchestrator_events")
            copied = rows.fetchall()
            insert = "INSERT INTO orchestrator_events (run_id, seq, ts, type, data) VALUES (?, ?, ?, ?, ?)"
            began = time.perf_counter()
            for start in range(0, len(copied), 1000):
                connection.executemany(insert, copied[start : start + 1000])
                connection.commit()
            bare = time.perf_counter() - began
    yield (
        "events stored",
        f"{50_000 / ours:,.0f}/s",
        f"`executemany` {50_000 / bare:,.0f}/s, {bare / ours:.0%}",
        "≥ 50 %",
    )


async def _append(path: Path, count: int) -> float:
    with connect(path) as known:
        run = known.create("bench", RunSpec("planfile", "plan.md", ".", "command", "execute"))
        journal = await known.open(run.id)
        began = time.perf_counter()
        for number in range(count):
            await journal.emit(AgentText(f"Line {number} of what it says."))
        await known.close(journal)
        return time.perf_counter() - began


FIGURES: dict[str, Callable[[], Iterator[Row]]] = {
    one.__name__: one for one in (startup, task, sandbox, proving, store)
}


def main() -> None:
    """Measure the chosen figures and print them as a table."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", action="append", choices=FIGURES, help="only this figure (repeatable)")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}\n")
    print("| what | ours | yardstick | target |\n|---|---|---|---|")
    for name in options.only or FIGURES:
        for row in FIGURES[name]():
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
