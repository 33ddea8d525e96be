"""Has the process tests run twice: as this system does it, and with the threads that Windows needs."""

from __future__ import annotations

import pytest

from segue.system.process.group import PORTABLE

_MODULES = ("test_process", "test_process_adoption")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in _MODULES:
        tortured = metafunc.definition.get_closest_marker("torture")
        metafunc.fixturenames.append("hearing")
        metafunc.parametrize("hearing", ["native"] if tortured else ["native", "threads"], indirect=True)


@pytest.fixture
def hearing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How pipes are read; the variable reaches supervisors and the small Segue too."""
    if request.param == "threads":
        monkeypatch.setenv(PORTABLE, "1")
