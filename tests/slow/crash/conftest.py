"""Fixtures for runs that are killed or have no room."""

from tests.cli.conftest import place

__all__ = ["place"]
