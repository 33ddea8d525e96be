"""A product that patches its runner, or behaves well only where it is watched, is not believed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

import pytest

from segue.domain.proof import CheckResult, CheckState
from segue.flow.proving import level_of
from segue.proof.evidence import count_passed
from segue.proof.execute import SealOptions
from segue.proof.ordinary import narrow
from tests.proof.disguise_cases import HONEST, INSIDE, LOOKING, DisguiseCase
from tests.proof.projects import Checkout, needs_sandbox, works

Means = Literal["auto", "bwrap", "namespaces", "copy"]
MEANS: tuple[Means, ...] = ("bwrap", "namespaces", "copy")
MOST_DIFFERENT: tuple[Means, ...] = ("bwrap", "copy")


def _judge(case: DisguiseCase, means: Means, folder: Path) -> CheckResult:
    if means != "auto" and not works(means):
        pytest.skip(f"{means} does not work here")
    if case.needs and not shutil.which(case.needs):
        pytest.skip(f"needs {case.needs}")
    return Checkout(folder, case.base, SealOptions(means=means, timeout=300)).check(case.change, case.check)


def _refuse(result: CheckResult) -> None:
    believed = result.ok and level_of([result])[0].proven
    said = f"{result.state} {result.reason} {result.weaknesses}\n{result.output}"
    assert not believed or "equal to everything" in result.cap, said


@needs_sandbox
@pytest.mark.quick("swallows-failures-of-one-test", "unittest-equal-to-everything")
@pytest.mark.parametrize("case", INSIDE, ids=lambda case: case.name)
def test_tricks_inside_are_refused(case: DisguiseCase, tmp_path: Path) -> None:
    _refuse(_judge(case, "auto", tmp_path))


@pytest.mark.quick("right-with-any-of-these-bwrap")
@pytest.mark.parametrize("means", MEANS)
@pytest.mark.parametrize("case", LOOKING, ids=lambda case: case.name)
def test_looking_who_runs_it_does_not_help(case: DisguiseCase, means: Means, tmp_path: Path) -> None:
    _refuse(_judge(case, means, tmp_path))


@pytest.mark.quick("runs-pytest-itself-bwrap")
@pytest.mark.parametrize("means", MOST_DIFFERENT)
@pytest.mark.parametrize("case", HONEST, ids=lambda case: case.name)
def test_honest_work_passes(case: DisguiseCase, means: Means, tmp_path: Path) -> None:
    result = _judge(case, means, tmp_path)
    said = f"{result.state} {result.reason} {result.weaknesses} {result.cap}\n{result.output}"
    assert result.state is CheckState.PASSED, said
    assert result.proved, said
    assert not result.cap, said
    assert "ordinary" not in str(result.weaknesses), said


@pytest.mark.parametrize(
    ("output", "passed"),
    [
        ("..F\n1 failed, 2 passed in 0.01s", 2),
        ("\x1b[32m3 passed\x1b[0m, 1 skipped, 1 xpassed", 3),
        ("Ran 4 tests in 0.010s\n\nFAILED (failures=1, errors=1)", 2),
        ("Test Suites: 1 passed, 1 total\nTests:       3 passed, 3 total", 3),
        ("Test Files  2 passed (2)\n     Tests  5 passed (5)", 5),
        ("\u2139 tests 3\n\u2139 suites 0\n\u2139 pass 2\n\u2139 fail 1", 2),
        ("# tests 3\n# pass 3", 3),
        ("  4 passing (9ms)\n  1 failing", 4),
        ("ok  \texample.com/a\t0.1s\nok  \texample.com/b\t(cached)\n?   \texample.com/c\t[no test files]", 2),
        ("test result: ok. 7 passed; 0 failed; 0 ignored", 7),
        ("TAP version 13\nok 1 - total\nnot ok 2 - mean\n# pass 1\n# fail 1", 1),
        ("all fine", None),
    ],
)
def test_runners_say_how_many_passed(output: str, passed: int | None) -> None:
    assert count_passed(output) == passed


@pytest.mark.parametrize(
    ("command", "runner", "tests", "expected"),
    [
        ("python -m pytest -q tests/a", "pytest", "t.py::a", "python -m pytest -q t.py::a"),
        ("python -m unittest discover -s tests", "unittest", "t.A.b", "python -m unittest t.A.b"),
        ("go test ./...", "go test", "a_test.go::TestA/b", "go test -run=^(TestA)$ ./..."),
        ("make test", "pytest", "t.py::a", None),
    ],
)
def test_long_commands_are_repeated_in_part(
    command: str, runner: str, tests: str, expected: str | None
) -> None:
    found = narrow(command.split(), [runner], [tests])
    assert (None if found is None else " ".join(found)) == expected
