"""Fleets for tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.place import PLAN
from tests.parts.fleet.machines import Fleet, make_fleet

# The page of the fleet is tested as the other pages are.
from tests.web.conftest import driver as driver
from tests.web.conftest import place as place
from tests.web.conftest import pytest_runtest_teardown as pytest_runtest_teardown
from tests.web.conftest import served as served


@pytest.fixture
def fleet(tmp_path: Path, postgres: str) -> Iterator[Fleet]:
    """A fleet whose user has a plan of three tasks; no machine works for it yet."""
    yield from make_fleet(tmp_path, postgres, PLAN)
