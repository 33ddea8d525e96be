"""Messages that mean the same have one signature, those that do not have two."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.outcome import LONGEST, signature

SAME = [
    ("ENOENT: no such file or directory, open '/tmp/a/b.sql'", "ENOENT: no such file or directory, open 'x'"),
    ("src/app/page.tsx(12,5): error TS2307: Cannot find", "lib/auth.ts(3,40): error TS2307: Cannot find"),
    ("\x1b[31mError\x1b[0m: boom at line 12", "Error: boom at line 99"),
    ("at 2026-01-02T10:11:12.5Z it stopped", "at 2025-12-31 it stopped"),
    ("commit 3f2a91b not found", "commit 9d8e7c6b5a not found"),
    ("GET https://a.supabase.co/rest/v1/todos?x=1 refused", "GET http://127.0.0.1:54321/auth refused"),
    (
        "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 'id'",
        "KeyError: 'name'",
    ),
]

DIFFERENT = [
    ("error TS2307: Cannot find module", "error TS2345: Cannot find module"),
    ("server answered with status 401", "server answered with status 500"),
    ("can't open it, won't try", "can't close it, won't try"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_differs_from_run_to_run_is_taken_out(one: str, other: str) -> None:
    assert signature(one) == signature(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_tells_errors_apart_stays(one: str, other: str) -> None:
    assert signature(one) != signature(other)


def test_a_huge_message_costs_no_more_than_a_long_one() -> None:
    assert signature("Error 1 in 'x' /a/b " * 500_000) == signature("Error 1 in 'x' /a/b " * 5000)


TELLING = st.text(
    alphabet=st.one_of(
        st.sampled_from("'\"`/\\.:-<>()[]0123456789abcdefxtz \n\x1b\x00[m;~@%,=“”"), st.characters()
    )
)


@given(
    st.one_of(
        TELLING,
        st.text(),
        st.lists(st.sampled_from(["'a b'", "/x/y", "x.ts:1", "12ms", "<", ">"])).map("".join),
    )
)
def test_a_signature_is_its_own_signature_and_short(message: str) -> None:
    found = signature(message)
    assert signature(found) == found
    assert len(found) <= LONGEST
    assert "\n" not in found
    assert "\x1b" not in found
    found.encode("utf-8")
