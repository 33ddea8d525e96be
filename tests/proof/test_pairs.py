"""Honest work gets what it earned, and a cheat is not believed: the pairs that take little time."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.cases import ProofCase
from tests.proof.pairs import list_cases, try_case


@pytest.mark.parametrize("case", list_cases(quick=True))
def test_work_ends_as_it_earned(case: ProofCase, tmp_path: Path) -> None:
    try_case(case, tmp_path)
