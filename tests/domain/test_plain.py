"""The ends of long texts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from segue.domain.text import cut_tail


@given(st.text("ab\n"), st.integers(1, 20))
def test_a_tail_begins_with_a_whole_line(text: str, limit: int) -> None:
    tail = cut_tail(text, limit)
    assert text.endswith(tail)
    assert len(tail) <= limit or tail == text
    lines = text[: len(text) - len(tail)]
    assert not lines or lines.endswith("\n") or "\n" not in text[-limit:-1]
