"""An agent may say that a task cannot be done, if it shows where that is written."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.exits import Citation, HonestExit, find_exit, find_unshown

LINE = '{"cannot": "both cannot be true", "evidence": [{"file": "a.py", "line": 3, "quote": "x == 1"}]}'
FOUND = HonestExit("both cannot be true", evidence=(Citation("a.py", 3, "x == 1"),))


@pytest.mark.parametrize(
    "message",
    [
        LINE,
        f"I looked at everything.\n\n{LINE}",
        f"Sorry.\n```json\n{LINE}\n```\n",
        f"`{LINE}`",
        f'An example would be {{"cannot": "x"}}, but here:\n{LINE}.',
    ],
)
def test_a_way_out_is_found_at_the_end(message: str) -> None:
    assert find_exit(message) == FOUND


@pytest.mark.parametrize(
    "message",
    [
        "",
        f"{LINE}\nBut then I found a way, and all tests pass now.",
        '{"cannot": ""}',
        '{"cannot": "x", "evidence": "none"}',
        '{"cannot": "x"',
    ],
)
def test_other_messages_are_none(message: str) -> None:
    assert find_exit(message) is None


@given(st.text(max_size=60), st.text(max_size=60), st.text(min_size=1, max_size=20))
def test_any_words_survive(reason: str, quote: str, file: str) -> None:
    way = HonestExit(f"r{reason}", evidence=(Citation(file, 1, quote),))
    line = json.dumps(
        {"cannot": way.cannot, "evidence": [{"file": file, "line": 1, "quote": quote}]}, ensure_ascii=False
    )
    assert find_exit(f"words {reason}\n{line}") == way


FILES = {"a.py": "def f():\n    return 1\n\n\nassert  x == 1\n"}


@pytest.mark.parametrize(
    ("cited", "missing"),
    [
        (Citation("a.py", 5, "assert x == 1"), ""),
        (Citation("a.py", 2), ""),
        (Citation("", 0, "must be two"), ""),
        (Citation("a.py", 5, "assert x == 2"), "a.py does not say “assert x == 2”"),
        (Citation("b.py", 1, "x"), "there is no file b.py"),
        (Citation("a.py", 99), "shows nothing"),
        (Citation("", 0, "must be three"), "the task does not say “must be three”"),
    ],
)
def test_evidence_must_be_where_it_is_said_to_be(cited: Citation, missing: str) -> None:
    found = find_unshown(HonestExit("no", evidence=(cited,)), "It must  be two.", FILES.get)
    assert (missing in "; ".join(found)) if missing else found == []
    assert find_unshown(HonestExit("no"), "It must be two.", FILES.get) == ["there is no evidence"]
