"""Only diagnostics on the list are run, and never by a shell."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from segue.domain.diagnostic import ALLOWED, find_refusal, parse

WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)


def refusal(command: str, rules: tuple[str, ...] = ALLOWED) -> str | None:
    try:
        return find_refusal(parse(command), rules)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("command", ["npx tsc --noEmit", "pytest", "pytest -k 'not (slow or net)' a.py::b"])
def test_what_begins_like_the_list_is_allowed(command: str) -> None:
    assert refusal(command) is None


@pytest.mark.parametrize(
    "command",
    [
        *("rm -rf .", "bash -c 'npm test'", "npm install evil", "npm", "pytestx", "CI=1 npm test", "", "''"),
        *("npx tsc; rm -rf .", "npm test | tee x", "npm test > x", 'npm test "$(id)"', "npm test $HOME"),
        *("npm test\nrm -rf .", "npm test \\; id", "npm test 'unclosed"),
    ],
)
def test_what_is_not_on_the_list_or_needs_a_shell_is_refused(command: str) -> None:
    assert refusal(command)


def test_a_star_stands_for_one_plain_word() -> None:
    assert refusal("npm run test:unit", ("npm run *",)) is None
    for command in ("npm run", "npm run --prefix x", "npm run ../x"):
        assert refusal(command, ("npm run *",))


@given(st.lists(WORDS, min_size=1, max_size=6))
@example(["a b", "$x"])
def test_quoted_words_come_back_as_they_were(words: list[str]) -> None:
    words = ["pytest", *(word.replace("'", "") for word in words)]
    assert parse(shlex.join(words)) == tuple(words)
