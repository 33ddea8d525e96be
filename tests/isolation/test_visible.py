"""How each place is seen in the sandbox that most machines have; tests/slow/isolation tries the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.isolation.means import each
from tests.isolation.visible import find_wrong, find_wrong_in_check, root

__all__ = ["root"]


@pytest.mark.parametrize("sandbox", each("bwrap standard"))
def test_each_place_is_seen_as_the_table_says(root: Path, sandbox: str) -> None:
    assert not find_wrong(root, sandbox)


@pytest.mark.parametrize("means", each("bwrap"))
def test_each_place_is_seen_by_a_check_as_the_table_says(root: Path, means: str) -> None:
    assert not find_wrong_in_check(root, "bwrap")
