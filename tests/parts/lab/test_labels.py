"""Labels: who gives them, what is refused, and what a repository's history says about recorded work."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from segue.parts.lab.labels.give import Labelled
from segue.parts.lab.labels.history import RecordedWork, find_wrong, says_fix
from segue.system.git.repository import Repository

FIXES = """\
Fix the total when the cart is empty
fix: off-by-one in paging
fix(api): return 404 for unknown users
Fixes #12: crash on empty input
Fixed race between save and close
Bugfix for negative prices
hotfix login
Correct rounding of half cents
Repair the import of old files
Prices were wrong after midnight
Login was broken for names with umlauts
Regression: search ignored case
BUG: division by zero
Don't crash when the file is missing (fix)
Fix typo in variable name that broke the build of totals
Resolve wrong sort order
""".splitlines()

OTHERS = """\
Add a shopping cart
Fix typo in README
fix: lint
Fix formatting
Fix docs link
Fix comments in cart.py
Fix whitespace
fix import order
Fix spelling
Fix warnings of mypy
Rename total to amount
Prefix all names with shop
Use a fixture for the database
Bump version to 1.2
Refactor the debugger
Make sizes fixed-width
Add suffixes to file names
Affix labels
Merge branch 'fixtures'
Update changelog for bug reports
""".splitlines()
"""Written before the rule was tried on them: 32 of 36 were right at first."""


@pytest.mark.parametrize("subject", FIXES)
def test_a_subject_that_says_fix(subject: str) -> None:
    assert says_fix(subject)


@pytest.mark.parametrize("subject", OTHERS)
def test_a_subject_that_says_something_else(subject: str) -> None:
    assert not says_fix(subject)


def git(repo: Path, *args: str) -> str:
    names = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *names, *args], cwd=repo, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(repo: Path, message: str, **files: str) -> str:
    for name, text in files.items():
        (repo / f"{name}.py").write_text(text)
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", message)
    return git(repo, "rev-parse", "HEAD")


def test_later_history_shows_what_was_reverted_or_fixed(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    commit(tmp_path, "Begin", old="x = 1\n")
    works = {
        task: commit(
            tmp_path, f"Task {task}\n\nSegue-Run: run\nSegue-Task: {task}", **{name: f"{name} = 1\nend = 2\n"}
        )
        for task, name in (("1", "cart"), ("2", "paging"), ("3", "login"), ("4", "docs"), ("5", "own"))
    }
    git(tmp_path, "revert", "--no-edit", works["1"])
    fixing = commit(tmp_path, "Fix paging of empty lists", paging="paging = 0\nend = 2\n")
    commit(tmp_path, "Fix the old value", old="x = 2\n")
    commit(tmp_path, "Extend login", login="login = 5\nend = 2\n")
    commit(tmp_path, "Fix docs", docs="docs = 5\nend = 2\n")
    commit(tmp_path, "Fix own work\n\nSegue-Run: run\nSegue-Task: 6", own="own = 7\n")
    # The ids in the record are those before a rebase; the trailers tell which commits they are.
    found = asyncio.run(look(tmp_path, [RecordedWork("run", task, "0" * 40) for task in works]))
    assert {one.label.task: one.label.reason for one in found} == {
        "1": found_reason(tmp_path, "HEAD~5", 'reverted by {}: Revert "Task 1"'),
        "2": f"fixed by {fixing[:10]} (1 of its lines): Fix paging of empty lists",
    }
    assert not any(one.label.good for one in found)


def found_reason(repo: Path, name: str, words: str) -> str:
    return words.format(git(repo, "rev-parse", name)[:10])


async def look(repo: Path, works: list[RecordedWork]) -> list[Labelled]:
    return await find_wrong(await Repository.open(repo), works)
