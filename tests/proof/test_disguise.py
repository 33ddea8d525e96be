"""A product that patches its runner, or behaves well only where it is watched, is not believed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from segue.domain.proof import CheckResult, CheckState
from segue.flow.proving import level_of
from segue.proof.execute import SealOptions
from tests.proof.disguise_cases import CHEATS, HONEST, DisguiseCase
from tests.proof.projects import Checkout, works

MEANS = ("bwrap", "namespaces", "copy")


def _judge(case: DisguiseCase, means: str, folder: Path) -> CheckResult:
    if not works(means):
        pytest.skip(f"{means} does not work here")
    if case.needs and not shutil.which(case.needs):
        pytest.skip(f"needs {case.needs}")
    return Checkout(folder, case.base, SealOptions(means=means, timeout=300)).check(case.change, case.check)


@pytest.mark.parametrize("means", MEANS)
@pytest.mark.parametrize("case", CHEATS, ids=lambda case: case.name)
def test_tricks_are_not_believed(case: DisguiseCase, means: str, tmp_path: Path) -> None:
    result = _judge(case, means, tmp_path)
    believed = result.ok and level_of([result], judged=False)[0].proven
    assert not believed or result.cap, f"{result.state} {result.reason} {result.weaknesses}\n{result.output}"


@pytest.mark.parametrize("means", MEANS)
@pytest.mark.parametrize("case", HONEST, ids=lambda case: case.name)
def test_honest_work_passes(case: DisguiseCase, means: str, tmp_path: Path) -> None:
    result = _judge(case, means, tmp_path)
    said = f"{result.state} {result.reason} {result.weaknesses} {result.cap}\n{result.output}"
    assert result.state is CheckState.PASSED, said
    assert result.proved, said
    assert not result.cap, said
