"""A conversation that is told again: whole while it fits, then shortened between words, with a mark."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from segue.features.bridge.results import PastTurn, clip_words, write_history

WORDS = st.lists(st.sampled_from(["alpha", "beta", "gamma"]), max_size=40)
LINES = WORDS.map(" ".join) | WORDS.map("\n".join)
TURNS = st.lists(st.builds(PastTurn, LINES, LINES, LINES.filter(bool)), min_size=1, max_size=30)


@given(TURNS, st.integers(400, 4000))
def test_it_is_bounded_and_no_word_is_cut(turns: list[PastTurn], limit: int) -> None:
    text = write_history(turns, limit)
    assert len(text) <= limit + 200
    words = {word for word in text.split() if word[:2] in ("al", "be", "ga")}
    assert words <= {"alpha", "beta", "gamma"}


def test_early_turns_become_a_line_and_late_ones_stay_whole() -> None:
    turns = [PastTurn(f"wish {number}", "", f"reply {number} " + "word " * 400) for number in range(1, 31)]
    text = write_history(turns, 30_000)
    assert "Turn 1. the user: wish 1 you: reply 1 word" in text
    assert turns[-1].reply in text
    assert turns[0].reply not in text


def test_a_cut_is_marked() -> None:
    assert clip_words("one two three", 9) == "one two …"
