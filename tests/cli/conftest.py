"""Fixtures for tests of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.cloud_place import Cloud, open_cloud
from tests.cli.place import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A repository with a plan of three tasks."""
    return Place.make(tmp_path)


@pytest.fixture
def cloud(place: Place) -> Iterator[Cloud]:
    """A place with a feature, and the simulators of Cursor's cloud and of a judge."""
    with open_cloud(place) as served:
        yield served
