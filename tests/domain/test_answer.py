"""Texts that are too long for their place say what was left out."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from segue.domain.text import keep_end, keep_start


@given(st.text("ab\n", max_size=200), st.integers(1, 100))
def test_what_is_left_out_is_counted(text: str, most: int) -> None:
    for keep, pick in ((keep_start, str.startswith), (keep_end, str.endswith)):
        kept = keep(text, most)
        found = re.search(r"\[([\d,]+) characters were left out here\]", kept)
        assert (found is None) == (len(text) <= most)
        if found:
            shown = kept.replace(found[0], "", 1).removesuffix("\n") if keep is keep_start else kept
            shown = shown.removeprefix(f"{found[0]}\n")
            assert len(shown) <= most
            assert int(found[1].replace(",", "")) + len(shown) == len(text)
            assert pick(text, shown)
