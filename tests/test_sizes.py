"""The table of sizes counts everything once, and a real task shows what it imports."""

from __future__ import annotations

import pytest

from bench import house
from segue.domain.installed import built_in_parts


@pytest.mark.thorough
def test_the_table_of_sizes() -> None:
    found = {figure.what: int(figure.ours.replace(",", "")) for figure in house.figures(True)}
    parts = [found.pop(f"lines of the part {part.name}") for part in built_in_parts()]
    assert sum(parts) + found["lines of the core"] == found["lines of the whole"]
    lines, modules = list(found.values())[-2:]
    assert 10_000 < lines < found["lines of the core"]
    assert 100 < modules < 1_000
