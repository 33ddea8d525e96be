"""What a check says as if nobody watched: how many tests passed, and which commands are repeated in part."""

from __future__ import annotations

import pytest

from segue.proof.evidence import count_passed


@pytest.mark.parametrize(
    ("output", "passed"),
    [
        ("..F\n1 failed, 2 passed in 0.01s", 2),
        ("Ran 4 tests in 0.010s\n\nFAILED (failures=1, errors=1)", 2),
        ("Test Suites: 1 passed, 1 total\nTests:       3 passed, 3 total", 3),
        ("\u2139 tests 3\n\u2139 suites 0\n\u2139 pass 2\n\u2139 fail 1", 2),
        ("ok  \texample.com/a\t0.1s\nok  \texample.com/b\t(cached)\n?   \texample.com/c\t[no test files]", 2),
        ("test result: ok. 7 passed; 0 failed; 0 ignored", 7),
        ("TAP version 13\nok 1 - total\nnot ok 2 - mean\n# pass 1\n# fail 1", 1),
        ("all fine", None),
    ],
)
def test_runners_say_how_many_passed(output: str, passed: int | None) -> None:
    assert count_passed(output) == passed
