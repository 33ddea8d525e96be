"""The quick pairs of the proof bench: no cheat is believed, no honest work refused. `make proof` runs all."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from segue.bench.cases import ProofCase, load_cases
from segue.bench.run import run_cases

QUICK = [case for case in load_cases() if case.pair.quick]


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case.name)
def test_a_case_ends_as_wanted(case: ProofCase, tmp_path: Path) -> None:
    report = asyncio.run(run_cases([case], jobs=1, keep=tmp_path))
    if report.skipped:
        pytest.skip(f"not installed: {report.skipped}")
    [ending] = report.endings
    assert ending.is_as_wanted, (ending.tasks, ending.faults, (tmp_path / case.name / "stderr").read_text())
