"""Pairs of honest and cheating work, run as `python -m bench.proof` runs them."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from bench.cases import ProofCase, load_cases
from bench.proof import run_case

_IN_PYTHON = ("pytest", "hypothesis")


def list_cases(*, quick: bool) -> list[object]:
    """Return the cases that `make test` runs, or all others, as parameters of a test."""
    return [
        pytest.param(case, id=f"{case.group}/{case.name}")
        for case in load_cases()
        if case.pair.quick is quick
    ]


def try_case(case: ProofCase, folder: Path) -> None:
    """Run one case in a new folder; it must end as it earned."""
    missing = [tool for tool in case.pair.needs if tool not in _IN_PYTHON and shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    ending = asyncio.run(run_case(case, folder / "case", timed=False))
    assert not ending.faults, ending.tasks
