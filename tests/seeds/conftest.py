"""Fixtures for the users' documents."""

from tests.cli.conftest import cloud, place
from tests.cli.test_phases import cursor
from tests.parts.bridge.conftest import bridge

__all__ = ["bridge", "cloud", "cursor", "place"]
