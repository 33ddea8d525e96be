"""Fixtures for tests of the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.place import Place
from tests.web.browser import disconnect
from tests.web.place import Served, serving


@pytest.fixture(scope="module", autouse=True)
def driver() -> Iterator[None]:
    """What drives the browser is started once for the tests of a file."""
    yield
    disconnect()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A repository with a plan of three tasks."""
    return Place.make(tmp_path)


@pytest.fixture
def served(place: Place) -> Iterator[Served]:
    """The page for that place, with a client that was let in."""
    with serving(place) as found:
        yield found
