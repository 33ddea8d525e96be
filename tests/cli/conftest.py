"""Fixtures for tests of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.place import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A repository with a plan of three tasks."""
    return Place.make(tmp_path)
