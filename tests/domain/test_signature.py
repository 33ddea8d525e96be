"""Messages that mean the same have one signature, those that do not have two."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.outcome import LONGEST, signature

SAME = [
    ("ENOENT: no such file or directory, open '/tmp/a/b.sql'", "ENOENT: no such file or directory, open 'x'"),
    ("src/app/page.tsx(12,5): error TS2307: Cannot find", "lib/auth.ts(3,40): error TS2307: Cannot find"),
    ("\x1b[31mError\x1b[0m: boom at line 12", "Error: boom at line 99"),
    ("/home/a/x.py:10: DeprecationWarning", "/srv/other.py:2222: DeprecationWarning"),
    ("C:\\Users\\ann\\x.ts:3 failed", "D:\\y.ts:14 failed"),
    ("took 12.5s, gave up", "took 900ms, gave up"),
    ("at 2026-01-02T10:11:12.5Z it stopped", "at 2025-12-31 it stopped"),
    (
        "session 0f8fad5b-d9cd-469f-a165-70867728950e lost",
        "session 7c9e6679-7425-40de-944b-e07fc1f90ae7 lost",
    ),
    ("object 0x7f3a is gone", "object 0xdeadbeef is gone"),
    ("commit 3f2a91b not found", "commit 9d8e7c6b5a not found"),
    ("GET https://a.supabase.co/rest/v1/todos?x=1 refused", "GET http://127.0.0.1:54321/auth refused"),
    ('relation "todos" does not exist', 'relation "profiles" does not exist'),
    (
        "Error: x is not a function\n    at f (/a/b.js:1:2)\n    at g (/c.js:3:4)",
        "Error: x is not a function",
    ),
    (
        "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 'id'",
        "KeyError: 'name'",
    ),
    ("request req_01HZX3K9ABCDEFGH7 failed", "request req_01J0Q7WERTYUIOP99 failed"),
]

DIFFERENT = [
    ("error TS2307: Cannot find module", "error TS2345: Cannot find module"),
    ("ERROR 42P01 here", "ERROR 42501 here"),
    ("server answered with status 401", "server answered with status 500"),
    ("permission denied for table todos", "permission denied for schema auth"),
    ("can't open it, won't try", "can't close it, won't try"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_differs_from_run_to_run_is_taken_out(one: str, other: str) -> None:
    assert signature(one) == signature(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_tells_errors_apart_stays(one: str, other: str) -> None:
    assert signature(one) != signature(other)


def test_it_is_readable() -> None:
    message = (
        "src/db.ts:4:2 - error TS2339: Property 'from' does not exist on type `Client<Database>` (3 times)"
    )
    assert (
        signature(message)
        == "<path> - error ts2339: property <name> does not exist on type <name> (<n> times)"
    )


def test_words_with_a_slash_are_no_paths() -> None:
    assert signature("read/write and TCP/IP") == "read/write and tcp/ip"


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


@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_numbers_do_not_count(one: int, other: int) -> None:
    assert signature(f"failed after {one} of them") == signature(f"failed after {other} of them")
