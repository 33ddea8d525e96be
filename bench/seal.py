"""What proof costs: sealed checks over the bare command, and the ratchet over a run without it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median

from bench.place import Place, place
from bench.table import Figure, more, seconds
from segue.domain.events import CheckRun
from segue.domain.task import TaskKind
from segue.proof.execute import SealOptions
from segue.proof.seal import Sealer
from segue.store import connect

_CODE = "def add(a, b):\n    return {}\n"
_TESTS = {
    "pytest": "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
    "unittest": (
        "import unittest\n\nfrom calc import add\n\n\nclass TestAdd(unittest.TestCase):\n"
        "    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n"
    ),
}
_ARGV = {
    "pytest": [sys.executable, "-m", "pytest", "-q"],
    "unittest": [sys.executable, "-m", "unittest", "-q"],
}
_SEALED = 1.0
_RATCHET = 0.2


def figures(quick: bool) -> Iterator[Figure]:
    """Measure both."""
    for runner in _ARGV:
        for tests in (False, True):
            yield _sealed(runner, tests, repeats=3 if quick else 7)
    yield _ratchet(5 if quick else 20)


def _sealed(runner: str, tests: bool, repeats: int) -> Figure:
    """Compare a check that is sealed with the bare command in the same place."""
    with place() as here:
        base, head = _history(here, runner, tests)
        argv, sealer = (
            _ARGV[runner],
            Sealer(here.repo, here.repo / ".git", here.folder / "seal", SealOptions()),
        )

        async def check() -> list[float]:
            await sealer.prepare()
            return [await once() for _ in range(repeats + 1)][1:]

        async def once() -> float:
            began = time.monotonic()
            result = await sealer.check(argv, base, head, kind=TaskKind.BUILD)
            if not result.proved:
                raise RuntimeError(f"The check proves nothing: {result}")
            return time.monotonic() - began

        bare = [_run_bare(here, argv) for _ in range(repeats)]
        ours, yardstick = median(asyncio.run(check())), median(bare)
    changed = "code and tests changed" if tests else "code changed"
    return Figure(
        f"sealed {runner}, {changed}",
        seconds(ours),
        f"bare {runner} {seconds(yardstick)}",
        more(seconds, ours - yardstick),
        f"≤ +{_SEALED:g} s",
        ours - yardstick <= _SEALED,
    )


def _history(here: Place, runner: str, tests: bool) -> tuple[str, str]:
    """Commit a function that does not work yet, then one that does; return both commits."""
    test = here.repo / "test_calc.py"
    (here.repo / "calc.py").write_text(_CODE.format("None"))
    test.write_text(_TESTS[runner])
    heads = []
    for text in ("None", "a + b"):
        (here.repo / "calc.py").write_text(_CODE.format(text))
        if text != "None" and tests:
            test.write_text(test.read_text().replace("1, 2", "2, 1"))
        here.git("add", "--all")
        here.git("commit", "--quiet", "--message=Work")
        heads.append(_head(here))
    return heads[0], heads[1]


def _head(here: Place) -> str:
    said = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=here.repo, capture_output=True, check=True, text=True
    )
    return said.stdout.strip()


def _run_bare(here: Place, argv: list[str]) -> float:
    began = time.monotonic()
    subprocess.run(argv, cwd=here.repo, env=here.environment, capture_output=True, check=True)
    return time.monotonic() - began


def _ratchet(tasks: int) -> Figure:
    """Compare what earlier proofs take that are run again with the rest of a run; each check takes 1 s."""
    with place() as here:
        agent = ("sh", "-c", 'echo "$SEGUE_TASK" >> work && echo "$SEGUE_TASK" > "work-$SEGUE_TASK"')
        command = here.command("run", str(here.write_plan(tasks)), argv=agent)
        scenarios = "".join(
            f'[[proof.scenarios]]\ntask = "{number}"\nrun = "cat work-{number}"\nstdout = "{number}"\n'
            for number in range(1, tasks + 1)
        )
        config = here.folder / "segue.toml"
        config.write_text(f"checks = {json.dumps(['sleep 1'])}\n{config.read_text()}{scenarios}")
        began = time.monotonic()
        here.run(command)
        total = time.monotonic() - began
        with connect(here.database, read_only=True) as store:
            [run] = store.runs()
            events = [one.event for one in store.events(run.id, kinds=[CheckRun])]
        again = sum(
            one.seconds for one in events if isinstance(one, CheckRun) and one.result and one.result.of
        )
    share = again / (total - again)
    return Figure(
        f"ratchet: {tasks} tasks with a check of 1 s and a scenario each",
        seconds(again),
        f"the rest of the run {seconds(total - again)}",
        f"+{share:.0%}",
        f"≤ +{_RATCHET:.0%}",
        share <= _RATCHET,
    )
