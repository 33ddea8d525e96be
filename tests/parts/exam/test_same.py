"""Old code against new: which tasks ask for the same behaviour, what is compared, and what is said."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from segue.domain.proof import AgainstOld
from segue.domain.same import keeps_behaviour
from segue.parts.exam.pairs import find_calls, find_pairs
from segue.parts.exam.same import compare
from segue.proof.execute import SealOptions
from segue.proof.seal import Sealer
from tests.proof.projects import needs_sandbox

CASES = {
    "Refactor the parser into smaller functions.": True,
    "Rename `total` to `sum_of` in ledger.py.": True,
    "Move `clamp` to bounds.py": True,
    "Speed up `search`, which is quadratic.": True,
    "Optimise the query builder": True,
    "The report is slow. Make it much faster.": True,
    "Make `has_duplicates` in dup.py faster: it is quadratic.": True,
    "Improve the performance of the search in index.js.": True,
    "Simplify `join` without changing its behaviour.": True,
    "Extract the e-mail check from accounts.py into a helper.": True,
    "[US1] Split big.py into two modules": True,
    "Clean up dates.py; no functional changes.": True,
    "Replace the loop in `total` by a comprehension: the same results, fewer lines.": True,
    "- Inline `_helper`": True,
    "Add a class `Cache`. Behaviour must stay as it is for callers without it. Refactor them.": True,
    "Please reorganize the settings module.": True,
    "Add `move(x, y)` to robot.py.": False,
    "Fix the bug in the refactored parser.": False,
    "Implement `rename(old, new)` for uploaded files.": False,
    "Remove the cache.": False,
    "Add an option --speed-up.": False,
    "Make the error for a wrong date shorter.": False,
    "Write a function that splits names.": False,
    "Refactor the parser. Add support for comments.": False,
    "Change `total` so that it rounds.": False,
    "The move command moves a robot.": False,
    "Users can move cards between lists.": False,
}
"""Written before the rule, which was right about 23 of the first 24 at first."""


@pytest.mark.parametrize("words", CASES)
def test_the_words_of_a_task_say_whether_behaviour_stays(words: str) -> None:
    assert keeps_behaviour(words) is CASES[words]


OLD = """\
def clamp(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))


def join(parts, mark):
    return mark.join(parts)


def _half(x):
    return x / 2


def halve(x: float) -> float:
    return _half(x)


def kept(x: int) -> int:
    return x


def save(text: str) -> None:
    open("saved.txt", "w").write(text)


def pick(items: list[int]) -> int:
    import random
    return random.choice(items + [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])


def mystery(thing):
    return thing


class Box:
    def get(self):
        return 1
"""
NEW = """\
def clamp(value: int, low: int, high: int) -> int:
    return max(low, min(high, value))


def glue(parts, mark):
    out = ""
    for part in parts:
        out = out + mark + part if out else part
    return out


def _half(x):
    return x * 0.5


def halve(x: float) -> float:
    return _half(x)


def kept(x: int) -> int:
    return x


def save(text: str) -> None:
    with open("saved.txt", "w") as file:
        file.write(text)


def pick(items: list[int]) -> int:
    import random
    return random.choice([*items, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])


def mystery(thing):
    return (thing)[:]


class Box:
    def get(self):
        return 0 + 1
"""
TESTS = """\
from tools import join


def test_join():
    assert join(["a", "b"], "-") == "a-b"
"""
TASK = "Refactor tools.py; rename `join` to `glue`."


def test_what_changed_is_found_with_what_it_leads_to() -> None:
    change = find_pairs({"tools.py": (OLD, NEW)}, TASK)
    labels = [pair.label for pair in change.pairs]
    assert labels == ["clamp", "join (now glue)", "halve", "save", "pick", "mystery"]
    assert change.left_out == ("Box: a class is not compared",)


def test_what_was_moved_is_found_elsewhere() -> None:
    function = "def clamp(value: int) -> int:\n    return value\n"
    [pair] = find_pairs({"a.py": (function, ""), "b.py": ("", function)}, "Move clamp to b.py").pairs
    assert (pair.old, pair.new) == (("a.py", "clamp"), ("b.py", "clamp"))
    assert find_pairs({"a.py": (function, "")}, "Inline clamp").left_out == ("clamp (a.py): it is gone",)


def test_plain_arguments_of_calls_in_tests_are_found() -> None:
    assert find_calls([TESTS, "tools.join(x, '-')", "no python"], ["join"]) == {"join": ["(['a', 'b'], '-')"]}


def against(folder: Path, old: str, new: str, words: str) -> AgainstOld:
    """Compare two commits of a project by a sealed run."""

    def git(*argv: str) -> str:
        own = ("-c", "user.name=A", "-c", "user.email=a@localhost")
        done = subprocess.run(["git", *own, *argv], cwd=repo, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    repo = folder / "repo"
    repo.mkdir()
    git("init", "-q")
    commits = []
    for text in (old, new):
        (repo / "tools.py").write_text(text)
        (repo / "test_tools.py").write_text(TESTS)
        git("add", ".")
        git("commit", "-qm", "x")
        commits.append(git("rev-parse", "HEAD"))
    sealer = Sealer(repo, repo / ".git", folder / "scratch", SealOptions())
    commands = [(sys.executable, "-m", "unittest", "discover")]
    found = asyncio.run(compare(sealer, words, commits[0], commits[1], commands))
    assert found is not None
    return found


@pytest.mark.thorough
@needs_sandbox
def test_old_and_new_code_are_run_on_the_same_inputs(tmp_path: Path) -> None:
    wrong = NEW.replace("max(low, min(high, value))", "max(low, min(high, value)) if value != 7 else low")
    found = against(tmp_path, OLD, wrong, TASK)
    assert found.functions == ("clamp", "join (now glue)", "halve")
    assert found.inputs > 60
    assert all(one.startswith(("clamp(7,", "clamp: ", "join")) for one in found.differences)
    assert any(one.startswith("clamp(7,") and " before, " in one for one in found.differences)
    assert found.not_compared == (
        "Box: a class is not compared",
        "save: it opens files for writing",
        "pick: it ends differently each time, as with " + found.not_compared[2].rpartition("with ")[2],
        "mystery: `thing` has no annotation, and no test gives it a plain value",
    )


@needs_sandbox
@pytest.mark.thorough
def test_what_does_the_same_is_said_to_do_so(tmp_path: Path) -> None:
    found = against(tmp_path, OLD.partition("def save")[0], NEW.partition("def save")[0], TASK)
    assert found.functions == ("clamp", "join (now glue)", "halve")
    assert [one for one in found.differences if not one.startswith("join")] == []
