"""What only the checks use is found by measurement, whatever its files are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from segue.domain.proof import CheckResult, CheckState, HowSettled
from tests.proof.projects import Checkout, Files, needs_sandbox
from tests.slow.proof.support_cases import CASES, Twin

pytestmark = needs_sandbox


def run(folder: Path, twin: Twin, change: Files, first: Files) -> CheckResult:
    project = Checkout(folder, twin.base)
    if first:
        project.check(first, twin.argv)
        project.advance()
    return project.check(change, twin.argv)


def is_marked(result: CheckResult) -> bool:
    """Return whether an old test was changed and nothing settled that, so that the level is limited."""
    return any(one.how is HowSettled.UNSETTLED for one in result.changed_tests)


@pytest.mark.parametrize("name", CASES)
def test_honest_work_reaches_what_it_has_shown(tmp_path: Path, name: str) -> None:
    twin = CASES[name]
    result = run(tmp_path, twin, twin.honest, {})
    assert result.state is CheckState.PASSED, result
    assert not result.cap
    assert not is_marked(result), result
    assert bool(result.proved) is twin.proved, result


@pytest.mark.parametrize("name", CASES)
def test_a_cheat_is_refused_or_capped(tmp_path: Path, name: str) -> None:
    twin = CASES[name]
    result = run(tmp_path, twin, twin.cheat, twin.first)
    unsettled = [one for one in result.changed_tests if one.how is HowSettled.UNSETTLED]
    assert not result.ok or result.cap or unsettled, result


SELF = (
    "import sys\n\n\ndef half(n):\n    return n // 3\n\n\n"
    "if '--self-test' in sys.argv:\n    sys.exit(half(4) != 2)\nprint(half(8))\n"
)


@pytest.mark.parametrize("was", ["n // 3", "half(4) != 2"])
def test_a_program_with_its_tests_inside_is_capped_and_not_marked(tmp_path: Path, was: str) -> None:
    project = Checkout(tmp_path, {"half.py": SELF})
    now = {"n // 3": "n // 2", "half(4) != 2": "half(4) != 1"}[was]
    result = project.check({"half.py": SELF.replace(was, now)}, ("python3", "half.py", "--self-test"))
    assert result.state is CheckState.PASSED, result
    assert result.cap == "half.py is the check and what it checks"
    assert not is_marked(result)
    assert result.both_sides


def test_a_program_is_no_support_because_another_file_was_changed_too(tmp_path: Path) -> None:
    base = {"greet.sh": "echo no\n", "scripts/check.sh": '[ "$(sh greet.sh Ada)" = "Hello, Ada!" ]\n'}
    change = {"greet.sh": 'echo "Hello, $1!"\n', "scripts/demo.sh": "sh greet.sh World\n"}
    found = Checkout(tmp_path, base).check(change, ("sh", "scripts/check.sh"))
    assert (found.proved, found.changed_tests) == (("sh scripts/check.sh",), ())
