"""Fleets for tests."""

from tests.features.fleet.conftest import fleet

__all__ = ["fleet"]
