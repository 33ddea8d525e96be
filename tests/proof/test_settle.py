"""Changes of old tests are settled by the task's words or because they assert the same; their twins are not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from segue.domain.proof import ChangedTest, CheckState, HowSettled
from segue.proof.paths import Classifier, PathKind
from segue.proof.settle.changes import Change, OldTest, settle
from tests.proof.projects import PYTEST, Checkout, needs_sandbox
from tests.proof.settle_cases import OTHERS, PYTHON, Edit

CASES = {**PYTHON, **OTHERS}


def settled(edit: Edit) -> tuple[ChangedTest, ...]:
    """Settle an edit as if every old test of its files fails, except those that still pass."""
    head = {path: text for path, text in {**edit.base, **edit.change}.items() if text is not None}
    differing = [path for path in {**edit.base, **head} if edit.base.get(path) != head.get(path)]
    kinds = {path: Classifier().kind(path) for path in differing}
    sides: list[dict[str, str]] = [
        {
            path: str(side[path])
            for path in differing
            if path in side and (kinds[path] is PathKind.TEST) is is_test
        }
        for is_test in (True, False)
        for side in (edit.base, head)
    ]
    change = Change(edit.words, *sides)
    tests = [
        OldTest(
            f"{path}::{unit.name}",
            path,
            was_red="NotImplementedError" in str(edit.base.get("shop.py", "")) and "discount" in unit.name,
            decides=unit.name not in edit.still,
            is_silent=unit.name in edit.silent,
        )
        for path, file in change.old.items()
        for unit in file.units
        if unit.name
    ]
    if not tests:
        tests = [OldTest("tests/test_shop.py::test_receipt", "tests/test_shop.py")]
    return settle(change, tests)


@pytest.mark.parametrize("name", CASES)
def test_old_tests_are_settled(name: str) -> None:
    found = settled(CASES[name])
    unsettled = [one for one in found if one.how is HowSettled.UNSETTLED]
    assert bool(unsettled) is name.endswith("!"), found


def command(name: str) -> tuple[str, ...]:
    """Return the check of a case."""
    if name.startswith("go:"):
        return ("go", "test", "-vet=off", "./...")
    return ("node", "--test") if name.startswith("js:") else (*PYTEST[:2], "PYTHONPATH=.", *PYTEST[2:])


SEALED = [name for name in CASES if not name.startswith("rust:")]


@needs_sandbox
@pytest.mark.thorough
@pytest.mark.parametrize("name", SEALED)
def test_sealed_checks_settle_old_tests(tmp_path: Path, name: str) -> None:
    edit, argv = CASES[name], command(name)
    if shutil.which(argv[0]) is None:
        pytest.skip(f"{argv[0]} is not installed")
    result = Checkout(tmp_path, edit.base).check(edit.change, argv, words=edit.words)
    assert result.state is CheckState.PASSED, result
    unsettled = [one for one in result.changed_tests if one.how is HowSettled.UNSETTLED]
    assert bool(unsettled) is name.endswith("!"), result.changed_tests
    assert bool(result.contested) is bool(unsettled)
