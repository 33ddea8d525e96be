"""Fixtures for tests in a browser: the page, and one browser for all tests of a file."""

from tests.web.conftest import driver as driver
from tests.web.conftest import place as place
from tests.web.conftest import served as served
