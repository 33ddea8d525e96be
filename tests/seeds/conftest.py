"""Fixtures for the users' documents."""

from tests.cli.conftest import cloud, place

__all__ = ["cloud", "place"]
