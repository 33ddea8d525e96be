"""Whether a task asks for no more than what was changed, where no test could tell the change."""

from __future__ import annotations

import pytest

from segue.domain.task import Task, TaskKind
from segue.flow.exempt import asks_for_no_more
from segue.proof.scope import ChangePart, Scope

C, D, T, U, R = (
    ChangePart.COMMENTS,
    ChangePart.DOCS,
    ChangePart.TESTS,
    ChangePart.UNREAD,
    ChangePart.REMOVED,
)
ASKED = [
    ("Explain the retry loop in net.py in a comment", C, "net.py"),
    ("Add docstrings to calc.py and to text.py", C, "calc.py"),
    ("Fix the typo in the comment above `add()`", C, "calc.py"),
    ("Reformat the code with black", C, "calc.py"),
    ("Add a licence header to every file", C, "calc.py"),
    ("Describe `subtract()` in the README", D, "README.md"),
    ("Update the changelog for 1.2", D, "CHANGELOG.md"),
    ("Translate docs/usage.md into German", D, "docs/usage.de.md"),
    ("Mention the new flag in usage.md", D, "docs/usage.md"),
    ("Run CI on Python 3.13 too", U, ".github/workflows/ci.yml"),
    ("Add a `clean` target to the Makefile", U, "Makefile"),
    ("Ignore build results in .gitignore", U, ".gitignore"),
    ("Add the MIT license", U, "LICENSE"),
    ("Set the line length in the configuration of the editor", U, ".editorconfig"),
    ("Write tests for `parse()`", T, "tests/test_parse.py"),
    ("Raise the coverage of calc.py", T, "tests/test_calc.py"),
    ("Delete `_old_total` from calc.py: it is dead code", R, "calc.py"),
    ("Remove unused functions", R, "calc.py"),
]
NOT_ASKED = [
    ("Add subtract() to calc.py", C, "calc.py"),
    ("Fix the division by zero in calc.py", C, "calc.py"),
    ("Add subtract() and document it", D, "README.md"),
    ("Add subtract() as described in README.md", D, "README.md"),
    ("Implement the parser. Write docs for it.", D, "docs/parser.md"),
    ("Make `greet` polite. Add tests for it.", T, "tests/test_greet.py"),
    ("Add a cache to the client", U, "notes.txt"),
    ("Return 404 for unknown users", D, "README.md"),
    ("Refactor calc.py and add comments", C, "calc.py"),
    ("Support tests in subfolders", C, "runner.py"),
    ("Remove the user's session on logout", R, "calc.py"),
    ("Add subtract() to calc.py", R, "calc.py"),
]


@pytest.mark.parametrize("case", ASKED, ids=lambda case: case[0])
def test_what_a_task_asks_for_and_gets_needs_no_test(case: tuple[str, ChangePart, str]) -> None:
    assert _is_exempt(*case)


@pytest.mark.parametrize("case", NOT_ASKED, ids=lambda case: case[0])
def test_what_a_task_asks_for_beyond_that_does(case: tuple[str, ChangePart, str]) -> None:
    assert not _is_exempt(*case)


def test_who_names_the_kind_has_said_so() -> None:
    task = Task("1", "Do it", "Do it", kind=TaskKind.DOCS)
    assert asks_for_no_more(task, Scope((ChangePart.DOCS,), ("a.md",)))
    assert not asks_for_no_more(task, Scope((ChangePart.PROGRAM,), ("a.py",)))


def _is_exempt(text: str, part: ChangePart, path: str) -> bool:
    return asks_for_no_more(Task("1", text, text), Scope((part,), (path,), ("_old_total",)))
