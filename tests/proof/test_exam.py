"""Questions of an exam that cannot be used, and names that nobody has given."""

from __future__ import annotations

import pytest

from segue.proof.exam import find_missing_name, find_unusable, is_given
from segue.proof.report import CaseResult, Reason, Report, TestOutcome
from segue.proof.runs import Observed

FILE = "tests/test_exam.py"


def seen(**outcomes: TestOutcome) -> Observed:
    cases = [CaseResult(f"{FILE}::{name}", outcome, FILE) for name, outcome in outcomes.items()]
    return Observed(1, report=Report({case.id: case for case in cases}))


def test_questions_that_pass_without_the_work_or_by_chance_are_named() -> None:
    passed, failed = TestOutcome.PASSED, TestOutcome.FAILED
    first = seen(right=failed, idle=passed, odd=failed, gone=failed)
    found = find_unusable(first, seen(right=failed, idle=passed, odd=passed), [FILE])
    assert found == {
        f"{FILE}::idle": "passes without the work",
        f"{FILE}::odd": "ends differently each time",
        f"{FILE}::gone": "ends differently each time",
    }


def test_a_file_that_cannot_be_loaded_is_named_as_a_whole() -> None:
    case = CaseResult(FILE, TestOutcome.FAILED, FILE, Reason.SYNTAX, whole_file=True)
    run = Observed(1, report=Report({FILE: case}))
    assert find_unusable(run, run, [FILE]) == {FILE: "cannot be loaded"}
    missing = CaseResult(FILE, TestOutcome.FAILED, FILE, Reason.MISSING, whole_file=True)
    run = Observed(1, report=Report({FILE: missing}))
    assert find_unusable(run, run, [FILE]) == {}, "it waits for what the task makes"


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("ImportError: cannot import name 'Ledger' from 'ledger' (/x/ledger.py)", "ledger.Ledger"),
        ("ModuleNotFoundError: No module named 'extremes'", "extremes"),
        ("AttributeError: module 'ledger' has no attribute 'biggest'", "ledger.biggest"),
        ("TypeError: overdrawn() got an unexpected keyword argument 'limit'", "limit"),
        ("AttributeError: 'NoneType' object has no attribute 'total'", "total"),
        ("The requested module './lib/money.js' does not provide an export named 'cents'", "money.cents"),
        ("TypeError: names.initials is not a function", "initials"),
        ("Error: Cannot find module './lib/money.js'", "./lib/money.js"),
        ("AssertionError: 3 != 4", ""),
    ],
)
def test_the_missing_name_is_found(message: str, name: str) -> None:
    case = CaseResult("t", TestOutcome.FAILED, reason=Reason.MISSING, message=message)
    assert find_missing_name(case) == name


def test_a_name_is_given_where_the_text_has_it_as_a_word() -> None:
    words = "Add `largest(entries)` to ledger.py, and lib/money.js."
    assert is_given("largest", words)
    assert is_given("./lib/money.js", words)
    assert not is_given("Ledger", words)
    assert not is_given("large", words)


def test_a_place_that_the_text_leaves_open_is_not_given() -> None:
    names = "extremes.py:\n  def largest(entries)"
    assert not is_given("ledger.largest", "Add `largest(entries)`. Choose the module.", names)
    assert is_given("ledger.largest", "Add `largest(entries)` to ledger.py.", names), "the work is wrong"
    assert is_given("ledger.largest", "Add `largest(entries)`.", "ledger.py:\n  def total()"), "it is missing"
