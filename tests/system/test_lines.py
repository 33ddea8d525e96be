"""LineFramer are the same however the bytes arrive, and no line takes more memory than the cap."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from segue.system.lines import LineFramer, OutputLine

LINEISH = st.lists(
    st.sampled_from([b"a", b"\n", b"\r", b"\r\n", "é".encode(), "🙂".encode(), b"\xff", b"\xe2"])
)


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(places)]


def frame(chunks: list[bytes], cap: int, most: int | None = None) -> list[OutputLine]:
    lines = LineFramer(cap, most)
    found = [line for chunk in chunks for line in lines.feed(chunk)]
    return found + lines.close()


@given(LINEISH, st.lists(st.integers(0, 200)), st.integers(0, 12), st.none() | st.integers(0, 12))
def test_any_chunking_gives_the_same_lines(
    parts: list[bytes], cuts: list[int], cap: int, most: int | None
) -> None:
    data = b"".join(parts)
    assert frame(split(data, cuts), cap, most) == frame([data], cap, most)


@given(st.lists(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]))), st.booleans())
def test_nothing_is_lost_below_the_cap(texts: list[str], with_return: bool) -> None:
    end = "\r\n" if with_return else "\n"
    data = "".join(text + end for text in texts).encode()
    assert frame([data], 10**6) == [OutputLine(text) for text in texts]


@given(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"])), st.integers(0, 20))
def test_a_cut_line_keeps_whole_characters_and_counts_the_rest(text: str, cap: int) -> None:
    data = text.encode()
    (line,) = frame([data + b"\n"], cap)
    kept = line.text.removesuffix(f"…[{line.cut} bytes cut]") if line.cut else line.text
    assert text.startswith(kept)
    assert len(kept.encode()) == len(data) - line.cut
    assert len(kept.encode()) <= cap
    assert line.cut == 0 or cap - len(kept.encode()) < 4


def test_unicode_line_separators_do_not_end_a_line() -> None:
    text = "a\u2028b\x85c\x0bd"
    assert frame([text.encode() + b"\n"], 100) == [OutputLine(text)]
