"""What it costs to start: processor time of short commands, and the wait for the first agent."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from statistics import median

from bench.place import OUTSIDE, SEGUE, Place, place
from bench.table import Figure, more, seconds

VERSION_TARGET = 0.1
STATUS_TARGET = 0.2
DRY_RUN_TARGET = 0.5
FIRST_AGENT_TARGET = 0.25
PLAN_TASKS = 100


def figures(quick: bool) -> Iterator[Figure]:
    """Measure everything about starting."""
    repeats = 5 if quick else 15
    with place() as here:
        plan = here.write_plan(PLAN_TASKS)
        python = best_cpu(here, [sys.executable, "-c", "pass"], repeats)
        click = best_cpu(here, [sys.executable, "-c", "import click"], repeats)
        version = best_cpu(here, [SEGUE, "--version"], repeats)
        here.run(here.command("run", str(plan), "--task", "1", "--allow-no-change", "--quiet", *OUTSIDE))
        status = best_cpu(here, [SEGUE, "status"], repeats)
        dry = best_cpu(here, here.command("run", str(plan), "--dry-run", "--quiet"), repeats)
    yield _figure("`segue --version`, CPU", version, "`import click`", click, VERSION_TARGET)
    yield _figure("`segue status`, CPU", status, "`import click`", click, STATUS_TARGET)
    yield _figure(
        f"`run --dry-run`, {PLAN_TASKS} tasks, CPU", dry, "`python -c pass`", python, DRY_RUN_TARGET
    )
    for kind, times in first_agent(repeats).items():
        what = f"start to first agent, {kind} database, wall"
        yield _figure(what, median(times), "`python -c pass`, CPU", python, FIRST_AGENT_TARGET)


def _figure(what: str, ours: float, name: str, yardstick: float, target: float) -> Figure:
    return Figure(
        what,
        seconds(ours),
        f"{name} {seconds(yardstick)}",
        more(seconds, ours - yardstick),
        f"≤ {target} s",
        ours <= target,
    )


def best_cpu(here: Place, command: Sequence[str], repeats: int) -> float:
    """The least processor time of several runs: everything above it is the machine's noise."""
    return min(_cpu(here, command) for _ in range(repeats))


def _cpu(here: Place, command: Sequence[str]) -> float:
    process = subprocess.Popen(command, cwd=here.repo, env=here.environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def first_agent(repeats: int) -> dict[str, list[float]]:
    """Seconds from the launch of Segue until its agent runs, with a new database and one that exists."""
    times: dict[str, list[float]] = {"fresh": [], "existing": []}
    for _ in range(repeats):
        with place() as here:
            for kind in times:
                times[kind].append(_until_agent(here, kind))
    return times


def _until_agent(here: Place, kind: str) -> float:
    plan = here.write_plan(1).rename(here.folder / f"{kind}.md")
    stamp = here.folder / f"{kind}.stamp"
    agent = ["sh", "-c", f"date +%s%N > {stamp}"]
    command = here.command("run", str(plan), "--allow-no-change", "--quiet", *OUTSIDE, argv=agent)
    before = time.time_ns()
    here.run(command)
    return (int(stamp.read_text()) - before) / 1e9
