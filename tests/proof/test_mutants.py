"""Mutants change one thing in the changed lines; good tests notice them, weak ones do not."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path

import pytest

from segue.proof.mutants import OPERATORS, make_mutants
from tests.proof.projects import PYTEST, Checkout, needs_sandbox

OLD = "def old(a):\n    return a + 1\n"
NEW = '''
def grade(points, bonus):
    """Return a grade."""
    total = points + bonus
    if total > 10 and bonus:
        return "good"
    return "bad"
'''
STRONG = """from calc import grade
def test_grade():
    assert grade(9, 2) == "good"
    assert grade(10, 0) == "bad"
    assert grade(11, 0) == "bad"
    assert grade(9, 1) == "bad"
    assert grade(2, 1) == "bad"
"""
WEAK = "from calc import grade\ndef test_grade():\n    assert grade(20, 2)\n"


def test_each_operator_changes_only_lines_that_changed() -> None:
    made = make_mutants({"calc.py": (OLD, OLD + NEW)}, 100)
    assert {mutant.operator for mutant in made} == OPERATORS.keys()
    assert all(mutant.line > 2 for mutant in made)
    original = ast.unparse(ast.parse(OLD + NEW))
    assert len({mutant.text for mutant in made} | {original}) == len(made) + 1
    assert all('"""Return a grade."""' in mutant.text for mutant in made)


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("x = a == b", ["x = a != b"]),
        ("x = a < b", ["x = a <= b"]),
        ("x = a * b", ["x = a + b"]),
        ("x = a or b", ["x = a and b"]),
        ("x = True", ["x = False"]),
        ("x = ''", ["x = 'mutant'"]),
        ("x = 3", ["x = 4"]),
        ("while a:\n    b()", ["while not a:\n    b()"]),
        ("x: 'int' = a", []),
        ("x = f'{a}'", []),
        ("x = None", []),
        ("x = (", []),
    ],
)
def test_what_a_line_becomes(line: str, becomes: list[str]) -> None:
    assert [mutant.text for mutant in make_mutants({"a.py": ("", f"{line}\n")}, 10)] == becomes


def test_few_mutants_are_spread_over_all_places() -> None:
    text = "".join(f"x{number} = {number}\n" for number in range(100))
    lines = [mutant.line for mutant in make_mutants({"a.py": ("", text)}, 4)]
    assert lines == [1, 26, 51, 76]
    assert make_mutants({"a.py": ("", text)}, 0) == []


@pytest.mark.thorough
@needs_sandbox
def test_score_tells_good_tests_from_weak_ones(tmp_path: Path) -> None:
    place = Checkout(tmp_path, {"calc.py": OLD})
    strong = place.commit({"calc.py": OLD + NEW, "test_calc.py": STRONG})
    weak = place.commit({"test_calc.py": WEAK})

    def score(head: str) -> tuple[int, int]:
        found = asyncio.run(place.sealer().try_mutants([PYTEST], place.base, head, 6))
        assert found is not None
        return found

    assert score(strong) == (6, 6)
    tried, noticed = score(weak)
    assert (tried, noticed < 6) == (6, True)


@needs_sandbox
def test_nothing_is_said_when_the_checks_fail_anyway(tmp_path: Path) -> None:
    place = Checkout(tmp_path, {"calc.py": OLD})
    head = place.commit({"calc.py": OLD + NEW, "test_calc.py": "def test_x():\n    assert False\n"})
    assert asyncio.run(place.sealer().try_mutants([PYTEST], place.base, head, 3)) is None
