"""Fixtures for tests of the lab: a place, and the page that shows it."""

from __future__ import annotations

from tests.web.conftest import driver as driver
from tests.web.conftest import place as place
from tests.web.conftest import served as served
