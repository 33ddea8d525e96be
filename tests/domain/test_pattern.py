"""Patterns that are compiled late match what they would match at once."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hypothesis import example, given
from hypothesis import strategies as st

from segue.domain import kind_words
from segue.domain.pattern import pattern


def _with_needs() -> Iterator[re.Pattern[str]]:
    for value in vars(kind_words).values():
        for one in value if isinstance(value, tuple) else (value,):
            if getattr(one, "needs", ()):
                yield one


EVERY = list(_with_needs())
WORDS = sorted({word for one in EVERY for word in re.findall(r"[A-Za-z0-9]+|[\[\]:;./-]", one.pattern)})


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join))
@example("Manually check it")
@example("\N{LATIN SMALL LETTER LONG S}et up the linter")
@example("[RED] Write failing tests")
@example("Double-check it")
@example("quickstart for it")
@example("write the tests/e2e/login file")
def test_a_text_without_the_words_that_a_pattern_needs_does_not_match(text: str) -> None:
    for one in EVERY:
        compiled = re.compile(one.pattern, one.flags)
        fresh = pattern(one.pattern, one.flags, one.needs)  # type: ignore[attr-defined]
        assert (fresh.match(text) is None) == (compiled.match(text) is None), one.pattern
        assert (fresh.search(text) is None) == (compiled.search(text) is None), one.pattern


def test_most_texts_compile_nothing() -> None:
    one = pattern("(broken", 0, ["broken"])
    assert one.match("fine") is None
