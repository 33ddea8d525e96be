"""Only diagnostics on the list are run: no shell, no program in disguise, nothing outside the project."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from segue.domain.diagnostic import ALLOWED, find_refusal, parse

WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)


def refusal(command: str, rules: tuple[str, ...] = ALLOWED) -> str | None:
    """Why a command as a judge writes it is refused."""
    try:
        return find_refusal(parse(command), rules)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize(
    "command",
    [
        "npx tsc --noEmit",
        "npx tsc -p .",
        "npm test -- --run src/app.test.ts",
        "pytest",
        "pytest -xvs tests/test_app.py::test_login -k 'not (slow or net)' -rA --tb=short",
        "python -m pytest -q --ignore=tests/slow",
        "cargo test -p app -- --nocapture",
        "go test ./... -run TestLogin -count=1 -cover",
        "npx eslint --ext .ts,.tsx src -f stylish",
        "make test",
    ],
)
def test_ordinary_diagnostics_are_allowed(command: str) -> None:
    assert refusal(command) is None


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf .",
        "bash -c 'npm test'",
        "npm install evil",
        "npm",
        "npx tsc; rm -rf .",
        "npm test | tee /etc/passwd",
        "npm test > out.txt",
        'npm test -- "$(id)"',
        'npm test -- "`id`"',
        "npm test $HOME",
        "npm test\nrm -rf .",
        "npm test \\; id",
        "npm test 'unclosed",
        "CI=1 npm test",
        "",
        "''",
        "pytestx",
        "npm run *",
    ],
)
def test_what_is_not_on_the_list_or_needs_a_shell_is_refused(command: str) -> None:
    assert refusal(command)


@pytest.mark.parametrize(
    "command",
    [
        "pytest -p evil",
        "pytest -pevil",
        "pytest -xp evil",
        "pytest -c other.ini",
        "pytest --rootd=src",
        "pytest -o addopts=-pevil",
        "pytest /etc",
        "pytest ../other",
        "pytest tests/../../other",
        "pytest @args.txt",
        "python -m pytest -c 'import os'",
        "npm test --script-shell=evil",
        "npx tsc --outDir=/tmp",
        "npx tsc C:\\evil",
        "go test -exec=evil ./...",
        "cargo test --config build.rustc-wrapper=evil",
        "make test SHELL=evil",
        "ruff check --fix",
        "npx eslint --rulesdir rules",
    ],
)
def test_arguments_that_make_it_another_program_are_refused(command: str) -> None:
    assert refusal(command)


def test_a_star_stands_for_one_plain_word() -> None:
    assert refusal("npm run test:unit", ("npm run *",)) is None
    assert refusal("npm run", ("npm run *",))
    assert refusal("npm run --prefix x", ("npm run *",))
    assert refusal("npm run ../x", ("npm run *",))


def test_the_longest_rule_counts_and_its_own_words_are_free() -> None:
    assert refusal("pytest -p xdist", ("pytest", "pytest -p xdist")) is None
    assert refusal("pytest -p evil", ("pytest", "pytest -p xdist"))


@given(st.lists(WORDS, min_size=1, max_size=6))
@example(["a'b", '"', "$x"])
def test_quoted_words_come_back_as_they_were(words: list[str]) -> None:
    words = ["pytest", *words]
    assert parse(shlex.join(words)) == tuple(words)


@given(st.text(st.sampled_from("npm test'\"$()`;|&<>\\\n-c/.~=@x"), max_size=40))
def test_whatever_is_let_through_is_on_the_list_and_has_no_shell_in_it(tail: str) -> None:
    try:
        argv = parse(f"npm test {tail}")
    except ValueError:
        return
    assert "\n" not in tail.strip()
    if find_refusal(argv, ALLOWED) is None:
        assert argv[:2] == ("npm", "test")
        assert not [word for word in argv[2:] if word.startswith(("/", "~", "-c", "-e")) or word == ".."]
