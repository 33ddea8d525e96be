"""`tested` needs tests that can tell right from wrong: twins, in sealed checks."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.proof.projects import Checkout, needs_sandbox
from tests.slow.proof.sharp_cases import TWINS, Twin

pytestmark = needs_sandbox


@pytest.mark.parametrize("twin", TWINS, ids=[twin.name for twin in TWINS])
def test_twins_end_differently(tmp_path: Path, twin: Twin) -> None:
    if shutil.which(twin.argv[0]) is None:
        pytest.skip(f"{twin.argv[0]} is not installed")
    found = Checkout(tmp_path, twin.base).check(twin.change, twin.argv, measured=True)
    assert found.ok, found.output
    is_tested = bool(found.proved) and found.noticed is not False and not found.blunt
    assert is_tested == twin.sharp, (found.blunt, found.mutants, found.survivors)
    assert found.blunt == "" or found.survivors or not found.noticed
