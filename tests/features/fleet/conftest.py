"""Fleets for tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.place import PLAN
from tests.features.fleet.machines import Fleet, make_fleet


@pytest.fixture
def fleet(tmp_path: Path, postgres: str) -> Iterator[Fleet]:
    """A fleet whose user has a plan of three tasks; no machine works for it yet."""
    yield from make_fleet(tmp_path, postgres, PLAN)
