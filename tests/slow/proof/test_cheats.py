"""The rarer tricks in Python, and tests that write to their own files."""

from __future__ import annotations

import pytest

from segue.domain.proof import CheckState
from tests.proof.cheats import BASE, CHEATS, EVERYDAY, HONEST
from tests.proof.projects import Checkout, Files, is_refused, needs_sandbox

pytestmark = needs_sandbox


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """One repository for all cheats, so that its base is checked once."""
    return Checkout(tmp_path_factory.mktemp("cheats"), BASE)


@pytest.mark.parametrize("name", [name for name in CHEATS if name not in EVERYDAY])
def test_a_cheat_is_refused(project: Checkout, name: str) -> None:
    result = project.check(CHEATS[name])
    assert is_refused(result), result


OWN_FILE = """import pathlib

import calc

KNOWN = pathlib.Path(__file__).parent / "known" / "sums.txt"


def test_it_saves_what_it_reads():
    text = KNOWN.read_text()
    KNOWN.write_text(text)
    assert calc.one() == int(text)
"""
WRITES: Files = {**BASE, "tests/test_saving.py": OWN_FILE, "tests/known/sums.txt": "1\n"}


@pytest.fixture(scope="module")
def writing(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A repository whose tests write to their own files, as some always have."""
    return Checkout(tmp_path_factory.mktemp("writing"), WRITES)


def test_tests_may_write_to_files_to_which_they_always_wrote(writing: Checkout) -> None:
    result = writing.check(HONEST)
    assert result.state is CheckState.PASSED, result
    assert result.passed == 3
    assert not result.weaknesses


def test_a_change_that_breaks_such_a_test_is_noticed(writing: Checkout) -> None:
    broken = "def one():\n    return 2\n\n\ndef add(a, b):\n    return a + b\n"
    result = writing.check({"calc.py": broken})
    assert "tests/test_saving.py::test_it_saves_what_it_reads" in result.broken, result


def test_files_to_which_no_test_wrote_are_watched_beside_them(writing: Checkout) -> None:
    assert is_refused(writing.check(CHEATS["a test rewritten while it is imported"]))
