"""Every numbered requirement of the users' documents has a test that is named after it."""

from __future__ import annotations

import pytest
from docs.seeds import requirements

NUMBERED = {
    "000": [f"FR-{number:03}" for number in range(1, 16)],
    "001": ["section 2.1", "section 2.2", *(f"rule {number}" for number in range(1, 6)), "section 5"],
    "002": ["section 1", "step 1", "step 2", "step 3", "step 4", "step 6", "section 4"],
    "003": [f"R{number}" for number in range(1, 8)],
    "004": [*(f"FR-{number}" for number in range(1, 10)), *(f"section {n}" for n in (5, 8, 9, 10, 13, 14))],
}


@pytest.mark.parametrize("document", NUMBERED)
def test_every_requirement_has_a_test(document: str) -> None:
    shown = requirements()[document]
    assert [number for number in NUMBERED[document] if number not in shown] == []
