"""How much faster several tasks at once are, what scheduling them costs, and how much memory it takes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

from bench.memory import peak_of
from bench.place import Place, place
from bench.table import Figure, megabytes, milliseconds, more
from segue.domain.schedule import Schedule
from segue.domain.task import Task
from segue.domain.waits import plan_waits

JOBS = 8
WORK = ("sh", "-c", 'sleep 1; echo done > "work-$SEGUE_TASK"')
_LEAST = 6.0
_MOST = 5.0
_GROWTH = 20e6


def figures(quick: bool) -> Iterator[Figure]:
    """Measure a plan of independent tasks of one second each, and the schedule alone."""
    tasks = 24 if quick else 100
    with place() as here:
        serial, _ = _time(here, tasks // 8, 1)
    with place() as here:
        _, small = _time(here, tasks // 2, JOBS)
    with place() as here:
        took, large = _time(here, tasks, JOBS)
    alone = serial / (tasks // 8) * tasks
    yield Figure(
        f"{tasks} tasks of 1 s, {JOBS} at once",
        f"{took:.1f} s",
        f"one at a time {alone:.1f} s",
        f"{alone / took:.1f} × as fast",
        f"≥ {_LEAST:g} ×",
        alone / took >= _LEAST,
    )
    if sys.platform == "linux":
        yield Figure(
            f"peak memory of Segue, {tasks} tasks, {JOBS} at once",
            megabytes(large),
            f"{tasks // 2} tasks: {megabytes(small)}",
            more(megabytes, large - small),
            f"≤ +{megabytes(_GROWTH)}",
            large - small <= _GROWTH,
        )
    for number in (100, 1_000):
        yield _schedule(number)


def _time(here: Place, tasks: int, jobs: int) -> tuple[float, int]:
    """Return how long a run takes from its start to its end, and the most memory Segue had, in bytes."""
    plan = here.write_plan(tasks)
    command = here.command("run", str(plan), "--quiet", "--isolation", "none", argv=WORK)
    command += ["--jobs", str(jobs)] if jobs > 1 else []
    began, highest = time.monotonic(), 0
    process = subprocess.Popen(command, cwd=here.repo, env=here.environment)
    while process.poll() is None:
        highest = max(highest, peak_of(process.pid))
        time.sleep(0.05)
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return time.monotonic() - began, highest


def _schedule(number: int) -> Figure:
    """Plan a list of tasks, half of which share their files, and let all of them begin and end."""
    texts = (f"Write part {n} in `src/part{n % (number // 2)}.py`." for n in range(number))
    tasks = [Task(str(n), f"Part {n}", text) for n, text in enumerate(texts, 1)]
    began = time.perf_counter()
    schedule = Schedule([task.key for task in tasks], plan_waits(tasks))
    for _ in tasks:
        (key,) = schedule.ready(1)
        schedule.begin(key)
        schedule.end(key, "done")
    took = (time.perf_counter() - began) * 1000 / number
    return Figure(
        f"planning and scheduling {number:,} tasks, each",
        milliseconds(took),
        "none",
        more(milliseconds, took),
        f"≤ {_MOST:g} ms",
        took <= _MOST,
    )
