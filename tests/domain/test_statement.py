"""What a proof says in words: the same on the terminal, on the page, on cards and in JSON."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from segue.domain.proof import (
    ChangedTest,
    CheckResult,
    CheckState,
    HowSettled,
    IndependentTests,
    Level,
    Proof,
    Seal,
    accept,
)
from segue.domain.statement import describe_proof, list_marks, name_level, state_proof

CHECK = CheckResult(
    "pytest", 0, "", CheckState.PASSED, runner="pytest", proved=("a", "b"), own=("a", "b"), seal=Seal.SEALED
)
TESTED = Proof(level=Level.TESTED, checks=(CHECK,))
CHANGED_TEST = ChangedTest("tests/test_x.py", 12, "t::x", HowSettled.ASKED)


def with_check(level: Level, *reasons: str, **facts: object) -> Proof:
    return Proof(level=level, reasons=reasons, checks=(replace(CHECK, **facts),))


@pytest.mark.parametrize(
    ("proof", "summary"),
    [
        (TESTED, "Tested by its own 2 tests; nothing that worked is broken."),
        (
            with_check(Level.TESTED, own=("a",)),
            "Tested by its own 1 test and 1 test that was there before; nothing that worked is broken.",
        ),
        (
            with_check(Level.TESTED, changed_tests=(CHANGED_TEST,)),
            "Tested by its own 2 tests; nothing that worked is broken; "
            "1 old test was changed, as the task asks: look at tests/test_x.py:12.",
        ),
        (
            with_check(
                Level.CHECKED,
                "tests that were there before were changed: tests/test_x.py:12",
                changed_tests=(replace(CHANGED_TEST, how=HowSettled.UNSETTLED),),
            ),
            "Checked; its own 2 tests fail without the change; nothing else that worked is broken; "
            "not shown: tests that were there before were changed: tests/test_x.py:12; "
            "1 old test was changed: look at tests/test_x.py:12.",
        ),
        (
            Proof(level=Level.CHANGED, untestable="only comments and layout were changed"),
            "Changed; only comments and layout were changed, so there is nothing that a test could tell.",
        ),
        (
            replace(
                TESTED,
                level=Level.INDEPENDENT,
                independent=IndependentTests(commit="", files=(), commands=(), proved=("c",)),
                held=(2, 2),
            ),
            "Tested by its own 2 tests; passes 1 test that the agent never saw; "
            "nothing that worked is broken; 2 earlier proofs still hold.",
        ),
        (
            replace(with_check(Level.TESTED, flaky=("f",)), held=(2, 1), by="Ada", judged=True),
            "Accepted by Ada; tested by its own 2 tests; nothing that worked is broken; "
            "a judge found every criterion met; 1 earlier proof no longer holds; 1 flaky test shows nothing.",
        ),
    ],
)
def test_the_first_line_says_what_is_shown_and_what_is_not(proof: Proof, summary: str) -> None:
    assert state_proof(proof).summary == summary


def test_marks_are_words_that_do_not_change() -> None:
    proof = replace(
        with_check(Level.TESTED, own=("a",), changed_tests=(CHANGED_TEST,), flaky=("f",)),
        held=(1, 1),
        judged=True,
        by="Ada",
    )
    assert [mark.name for mark in list_marks(proof)] == [
        "by its own tests",
        "by tests that were there before",
        "held",
        "judged",
        "accepted by Ada",
        "tests changed",
        "flaky",
        "sealed",
    ]
    assert [mark.name for mark in list_marks(replace(TESTED, held=(2, 1)))] == ["by its own tests", "sealed"]
    assert list_marks(Proof(level=Level.CHANGED)) == []


def test_what_a_person_accepts_is_never_called_pass() -> None:
    assert describe_proof(accept(TESTED, "Ada")) == "accepted by Ada (tested)"
    assert describe_proof(accept(None, "Ada")) == "accepted by Ada"
    assert name_level(accept(TESTED, "Ada")) == "tested"
