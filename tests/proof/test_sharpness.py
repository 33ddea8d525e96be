"""`tested` needs tests that can tell right from wrong: twins, in sealed checks."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.proof.projects import PYTEST, Checkout, needs_sandbox
from tests.proof.sharp_cases import TWINS, Twin

pytestmark = needs_sandbox


@pytest.mark.thorough
@pytest.mark.quick("python: no assert", "python: small")
@pytest.mark.parametrize("twin", TWINS, ids=[twin.name for twin in TWINS])
def test_twins_end_differently(tmp_path: Path, twin: Twin) -> None:
    program = {"sh": "javac"}.get(twin.argv[0], twin.argv[0])
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    found = Checkout(tmp_path, twin.base).check(twin.change, twin.argv, measured=True)
    assert found.ok, found.output
    is_tested = bool(found.proved) and found.noticed is not False and not found.blunt
    assert is_tested == twin.sharp, (found.blunt, found.mutants, found.survivors)
    assert found.blunt == "" or found.survivors or not found.noticed


@pytest.mark.thorough
def test_a_refactoring_has_no_test_to_measure(tmp_path: Path) -> None:
    base = {
        "a.py": "def f(n):\n    return n + n\n",
        "test_a.py": "from a import f\n\ndef test_f():\n    assert f(2) == 4\n",
    }
    found = Checkout(tmp_path, base).check({"a.py": "def f(n):\n    return 2 * n\n"}, PYTEST, measured=True)
    assert (found.ok, found.proved, found.noticed, found.blunt, found.mutants) == (True, (), True, "", None)
