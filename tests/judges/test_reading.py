"""What is read of a model's answer, and which quotes are taken for real."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.domain.errors import UnusableAnswer
from segue.judges.verdict import read_answer

KEYS = ["US1/AC1", "FR-003"]


def answer(*entries: tuple[str, bool, str]) -> str:
    listed = [{"key": key, "met": met, "evidence": words} for key, met, words in entries]
    return json.dumps({"criteria": listed, "reasoning": "because"})


WHOLE = answer(("US1/AC1", True, "return 404"), ("FR-003", False, "no test"))


@pytest.mark.parametrize(
    "text",
    [
        WHOLE,
        f"```json\n{WHOLE}\n```",
        f"<think>{{maybe}} {{not}}</think>\nSure! {WHOLE} Is there more {{to do}}?",
        f"{WHOLE}\n{WHOLE}",
        json.dumps({"verdict": "PASS", **json.loads(WHOLE)}, indent=2),
        answer(("FR-003", False, "no test"), (" US1/AC1 ", True, "return 404")),
    ],
)
def test_one_answer_is_found_in_whatever_stands_around_it(text: str) -> None:
    entries = read_answer(text, KEYS).criteria
    assert [(entry.key, entry.met) for entry in entries] == [("US1/AC1", True), ("FR-003", False)]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no JSON object"),
        ('["criteria"]', "no JSON object"),
        ("{" * 100_000, "no JSON object"),
        ("x" * 1_000_000, "too long"),
        (WHOLE + answer(("US1/AC1", True, "x"), ("FR-003", True, "y")), "more than one"),
        ('{"criteria": "all met"}', "criteria: "),
        (answer(("US1/AC1", True, "return 404")), "no entry for: FR-003"),
        (answer(("US1/AC1", True, "x"), ("US1/AC1", True, "x"), ("FR-003", True, "x")), "repeat one"),
        (answer(("US1/AC1", True, "x"), ("fr-003", True, "x")), "1 entries have a key that was not asked"),
        (answer(("US1/AC1", True, " \n"), ("FR-003", True, "x")), "Met without a quote: US1/AC1"),
        (WHOLE.replace("true", "1"), "met: Expected `bool`"),
    ],
)
def test_what_cannot_be_used_is_named(text: str, complaint: str) -> None:
    with pytest.raises(UnusableAnswer, match=complaint):
        read_answer(text, KEYS)


@settings(deadline=None)
@given(st.text(max_size=200), st.text(max_size=200))
def test_no_text_around_an_answer_can_turn_it(before: str, after: str) -> None:
    try:
        entries = read_answer(f"{before}\n{WHOLE}\n{after}", KEYS).criteria
    except UnusableAnswer:
        return
    assert [entry.met for entry in entries] == [True, False]
