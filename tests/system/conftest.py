"""Has the process tests run as this system does it, and some with the threads that Windows needs."""

from __future__ import annotations

import pytest

from segue.system.process.group import PORTABLE

_MODULES = ("test_process", "test_process_adoption")
_WITH_THREADS = (
    "test_prompt_goes_in_and_both_streams_and_the_code_come_out",
    "test_one_long_line_and_bytes_that_are_not_text",
    "test_children_that_leave_the_group_are_gone_afterwards",
    "test_an_agent_at_work_is_adopted_with_all_its_output",
    "test_no_daemon_survives_even_if_segue_and_its_supervisor_were_killed",
)
"""What is tried with threads too."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in _MODULES:
        metafunc.fixturenames.append("hearing")
        threads = ["threads"] if metafunc.function.__name__ in _WITH_THREADS else []
        metafunc.parametrize("hearing", ["native", *threads], indirect=True)


@pytest.fixture
def hearing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How pipes are read; the variable reaches supervisors and the small Segue too."""
    if request.param == "threads":
        monkeypatch.setenv(PORTABLE, "1")
