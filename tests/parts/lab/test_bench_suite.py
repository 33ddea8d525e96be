"""The quick pairs of the proof bench: no cheat is believed, no honest work refused. `make proof` runs all."""

from __future__ import annotations

import asyncio
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
