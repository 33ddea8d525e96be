"""What all proving of a task costs: sealed checks, without and with mutants, over one bare run of the suite.

The base is known before, as it is from the task before. Of a short suite the least of some times counts, as
of the bare runs: who shares a machine waits for others. Suites of 3 and 20 minutes are measured only when
asked for (`SEGUE_BENCH_LONG=1`): they take an hour and a half.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator

from bench.place import Place, place
from bench.table import Figure, more, seconds
from segue.domain.task import TaskKind
from segue.proof.execute import SealOptions
from segue.proof.seal import Sealer

_CODE = "def add(a, b):\n    return a + b\n"
_MEAN = "\n\ndef mean(values):\n    if not values:\n        return 0\n    return sum(values) / len(values)\n"
_TESTS = """from calc import mean


def test_mean():
    assert mean([1, 3]) == 2


def test_none():
    assert mean([]) == 0
"""
_SLEEP = """import time

import pytest

from calc import add


@pytest.mark.parametrize("one", range(10))
def test_add(one):
    time.sleep({0})
    assert add(one, 1) == one + 1
"""
_COMPUTE = """end = time.process_time() + {0}
    while time.process_time() < end:
        pass"""
_WORK = _SLEEP.replace("time.sleep({0})", _COMPUTE)
_ARGV = ["env", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", sys.executable, "-m", "pytest", "-q"]
"""Without the plugins of those who develop Segue: each run would take half a second longer to start."""
_SHORT = 2.0
"""Seconds: what a suite of fewer may take more is a time, of a longer one a ratio."""
_MORE = (1.0, 3.0)
_RATIO = (1.5, 2.0)
_TRIES = 3
_LANES = 4
_WAITING = 1.5
"""How many times as long as one lane several may take whose suites only wait."""


def figures(quick: bool) -> Iterator[Figure]:
    """Measure suites of several lengths."""
    yield from _proving("a suite of 1 s", _SLEEP, 0.1)
    yield from _proving("a suite of 10 s", _SLEEP, 1)
    yield from _proving("a suite that computes for 10 s", _WORK, 1)
    if not quick:
        yield from _proving("a suite of 30 s", _SLEEP, 3)
    yield _lanes("a suite of 10 s", 1)
    if os.environ.get("SEGUE_BENCH_LONG"):
        yield from _proving("a suite of 3 min", _SLEEP, 18)
        yield from _proving("a suite of 20 min", _SLEEP, 120)


def _proving(what: str, suite: str, each: float) -> Iterator[Figure]:
    """Compare checks of a task that adds a function and its tests with the bare command."""
    with place() as here:
        base = _commit(here, {"calc.py": _CODE, "test_add.py": suite.format(each)})
        tries = range(_TRIES if each * 10 < _SHORT else 1)
        bare = min(_run_bare(here) for _ in tries)
        head = _commit(here, {"calc.py": _CODE + _MEAN, "test_mean.py": _TESTS})
        for measured, by, most in zip((False, True), _MORE, _RATIO, strict=True):
            ours = min(asyncio.run(_check(here, base, head, measured)) for _ in tries)
            limit = bare + by if bare < _SHORT else bare * most
            yield Figure(
                f"proving {what}{', with mutants' if measured else ''}",
                seconds(ours),
                f"bare {seconds(bare)}",
                more(seconds, ours - bare) if bare < _SHORT else f"{ours / bare:.2f} ×",
                f"≤ +{by:g} s" if bare < _SHORT else f"≤ {most:g} ×",
                ours <= limit,
            )


def _lanes(what: str, each: float) -> Figure:
    """Compare several checks at once with one: they share the cores, and wait for nothing else."""
    with place() as here:
        base = _commit(here, {"calc.py": _CODE, "test_add.py": _SLEEP.format(each)})
        head = _commit(here, {"calc.py": _CODE + _MEAN, "test_mean.py": _TESTS})

        async def check(lanes: int) -> float:
            names = [f"{lanes}-{number}" for number in range(lanes)]
            return max(await asyncio.gather(*(_check(here, base, head, False, name) for name in names)))

        alone, together = asyncio.run(check(1)), asyncio.run(check(_LANES))
    return Figure(
        f"proving {what} in {_LANES} lanes at once",
        seconds(together),
        f"in one {seconds(alone)}",
        f"{together / alone:.2f} ×",
        f"≤ {_WAITING:g} ×",
        together <= _WAITING * alone,
    )


async def _check(here: Place, base: str, head: str, measured: bool, lane: str = "seal") -> float:
    """Return how long a check takes whose base is known."""
    sealer = Sealer(here.repo, here.repo / ".git", here.folder / lane, SealOptions(timeout=4000))
    await sealer.survey(_ARGV, base)
    began = time.monotonic()
    found = await sealer.check(_ARGV, base, head, kind=TaskKind.BUILD, measured=measured)
    if not found.proved or found.blunt:
        raise RuntimeError(f"The check proves nothing: {found}")
    return time.monotonic() - began


def _run_bare(here: Place) -> float:
    began = time.monotonic()
    subprocess.run(_ARGV, cwd=here.repo, env=here.environment, capture_output=True, check=True)
    return time.monotonic() - began


def _commit(here: Place, files: dict[str, str]) -> str:
    """Commit files and return the commit."""
    for name, text in files.items():
        (here.repo / name).write_text(text)
    here.git("add", "--all")
    here.git("commit", "--quiet", "--message=Work")
    said = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=here.repo, capture_output=True, check=True, text=True
    )
    return said.stdout.strip()
