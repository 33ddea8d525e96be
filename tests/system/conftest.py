"""Has the process tests run as this system does it, and some with the threads that Windows needs.

`make thorough` runs all of them in both ways.
"""

from __future__ import annotations

from zlib import crc32

import pytest

from segue.system.process.group import PORTABLE

_MODULES = ("test_process", "test_process_adoption")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in _MODULES:
        tortured = metafunc.definition.get_closest_marker("torture")
        metafunc.fixturenames.append("hearing")
        left = [pytest.mark.thorough] if crc32(metafunc.function.__name__.encode()) % 3 else []
        threads = [] if tortured else [pytest.param("threads", marks=left)]
        metafunc.parametrize("hearing", ["native", *threads], indirect=True)


@pytest.fixture
def hearing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How pipes are read; the variable reaches supervisors and the small Segue too."""
    if request.param == "threads":
        monkeypatch.setenv(PORTABLE, "1")
