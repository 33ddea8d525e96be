"""A product that patches its runner, or behaves well only where it is watched, is not believed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

import pytest

from segue.domain.proof import CheckResult, CheckState
from segue.flow.proving import level_of
from segue.proof.execute import SealOptions
from tests.proof.projects import Checkout, needs_sandbox, works
from tests.slow.proof.disguise_cases import HONEST, INSIDE, LOOKING, DisguiseCase

Means = Literal["auto", "bwrap", "copy"]


def _judge(case: DisguiseCase, means: Means, folder: Path) -> CheckResult:
    if means != "auto" and not works(means):
        pytest.skip(f"{means} does not work here")
    if case.needs and not shutil.which(case.needs):
        pytest.skip(f"needs {case.needs}")
    return Checkout(folder, case.base, SealOptions(means=means, timeout=300)).check(case.change, case.check)


@needs_sandbox
@pytest.mark.parametrize("case", [*INSIDE, *LOOKING], ids=lambda case: case.name)
def test_a_trick_is_refused(case: DisguiseCase, tmp_path: Path) -> None:
    result = _judge(case, "auto", tmp_path)
    believed = result.ok and level_of([result])[0].proven
    said = f"{result.state} {result.reason} {result.weaknesses}\n{result.output}"
    assert not believed or "equal to everything" in result.cap, said


@pytest.mark.parametrize("means", ["bwrap", "copy"])
@pytest.mark.parametrize("case", HONEST, ids=lambda case: case.name)
def test_honest_work_passes(case: DisguiseCase, means: Means, tmp_path: Path) -> None:
    result = _judge(case, means, tmp_path)
    said = f"{result.state} {result.reason} {result.weaknesses} {result.cap}\n{result.output}"
    assert result.state is CheckState.PASSED, said
    assert result.proved, said
    assert not result.cap, said
    assert "ordinary" not in str(result.weaknesses), said
