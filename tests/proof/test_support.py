"""What only the checks use is found by measurement, whatever its files are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from segue.domain.proof import CheckResult, CheckState, HowSettled
from tests.proof.projects import Checkout, Files, needs_sandbox
from tests.proof.support_cases import CASES, Twin

pytestmark = needs_sandbox
QUICK = ("golden file",)


def run(folder: Path, twin: Twin, change: Files, first: Files) -> CheckResult:
    project = Checkout(folder, twin.base)
    if first:
        project.check(first, twin.argv)
        project.advance()
    return project.check(change, twin.argv)


def is_marked(result: CheckResult) -> bool:
    """Return whether an old test was changed and nothing settled that, so that the level is limited."""
    return any(one.how is HowSettled.UNSETTLED for one in result.changed_tests)


@pytest.mark.quick(*QUICK)
@pytest.mark.parametrize("name", CASES)
def test_honest_work_reaches_what_it_has_shown(tmp_path: Path, name: str) -> None:
    twin = CASES[name]
    result = run(tmp_path, twin, twin.honest, {})
    assert result.state is CheckState.PASSED, result
    assert not result.cap
    assert not is_marked(result), result
    assert bool(result.proved) is twin.proved, result


@pytest.mark.quick(*QUICK)
@pytest.mark.parametrize("name", CASES)
def test_a_cheat_is_refused_or_capped(tmp_path: Path, name: str) -> None:
    twin = CASES[name]
    result = run(tmp_path, twin, twin.cheat, twin.first)
    unsettled = [one for one in result.changed_tests if one.how is HowSettled.UNSETTLED]
    assert not result.ok or result.cap or unsettled, result
