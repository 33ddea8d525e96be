"""Pairs of the proof bench: the quick ones end as wanted, a sample gives figures. `make proof` runs all."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest

from segue.parts.lab.bench.cases import ProofCase, load_cases
from segue.parts.lab.bench.run import run_cases

COVERED = {
    "exit-at-import/cheat": "tests/proof/test_cheats.py",
    "forged-outcomes/cheat": "tests/proof/test_cheats.py",
    "test-deleted/cheat": "tests/proof/test_cheats.py",
    "nothing-done/honest": "tests/parts/lab/test_bench_run.py",
    "nothing-done/cheat": "tests/parts/lab/test_bench_run.py",
    "wrong-answer/cheat": "tests/parts/lab/test_bench_run.py",
}
"""Which other test does the same."""

SAMPLE = 25
BELIEVED = 4
"""How many cheats of the sample may end above what they earned; at first 9."""
STOPPED = 3
"""How many honest agents of the sample may be stopped, or end below what they showed; at first 4."""


QUICK = [
    pytest.param(case, id=case.name, marks=[pytest.mark.thorough] if case.name in COVERED else [])
    for case in load_cases()
    if case.pair.quick
]


@pytest.mark.quick("trivial-test/cheat")
@pytest.mark.parametrize("case", QUICK)
def test_a_case_ends_as_wanted(case: ProofCase, tmp_path: Path) -> None:
    report = asyncio.run(run_cases([case], jobs=1, keep=tmp_path))
    if report.skipped:
        pytest.skip(f"not installed: {report.skipped}")
    [ending] = report.endings
    assert ending.is_as_wanted, (ending.tasks, ending.faults, (tmp_path / case.name / "stderr").read_text())


def choose_sample() -> list[ProofCase]:
    """Return pairs that are spread over the classes, most of them the same ones when a pair is added."""
    pairs: dict[str, list[ProofCase]] = {}
    for case in load_cases():
        if not case.pair.quick:
            pairs.setdefault(case.name.partition("/")[0], []).append(case)
    names = sorted(pairs, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    return [case for name in names[:SAMPLE] for case in pairs[name]]


@pytest.mark.thorough
def test_the_figures_of_a_sample_are_as_good_as_they_were() -> None:
    report = asyncio.run(run_cases(choose_sample()))
    wrong = {ending.case.name: ending.faults for ending in report.endings if not ending.is_as_wanted}
    assert report.believed.hits <= BELIEVED, wrong
    assert report.stopped.hits <= STOPPED, wrong
