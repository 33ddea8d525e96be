"""Tricks that make a broken product pass its own check are refused; honest work passes."""

from __future__ import annotations

import pytest

from segue.domain.proof import CheckState, Seal
from tests.proof.cheats import BASE, CHEATS, EVERYDAY, HONEST
from tests.proof.projects import Checkout, is_refused, needs_sandbox

pytestmark = needs_sandbox


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """One repository for all cheats, so that its base is checked once."""
    return Checkout(tmp_path_factory.mktemp("cheats"), BASE)


@pytest.mark.parametrize("name", EVERYDAY)
def test_a_cheat_is_refused(project: Checkout, name: str) -> None:
    result = project.check(CHEATS[name])
    assert is_refused(result), result


def test_honest_work_passes_and_is_proved(project: Checkout) -> None:
    result = project.check(HONEST)
    assert result.state is CheckState.PASSED, result
    assert result.proved == ("test_calc.py::test_add",)
    assert result.passed == 2
    assert result.noticed is True
    assert result.seal is Seal.SEALED
    assert result.runner == "pytest"
    assert result.exit_code == 0
    assert not result.changed
    assert not result.weaknesses
