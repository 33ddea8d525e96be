"""Mutants change one thing in the changed lines of six languages; sabotage breaks what changed, and only that."""
# ruff: noqa: E501 - programs are easier to compare in one line

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping

import pytest

from segue.proof.mutants.edits import make_mutants, sabotage
from segue.proof.mutants.measure import MutationLimits, TestStrength, measure
from segue.proof.runs import Observed

MODULE = '''"""A module."""
LIMIT = 3


def first(n):
    """Return n."""
    return n


def second(n):
    return n - 1  # as is


class Box:
    @property
    def size(self):
        return LIMIT

    def items(self):
        yield from range(LIMIT)
'''
PROGRAMS = {
    "a.py": "def f(a, b):\n    if a > 1 and b:\n        raise ValueError('x')\n    g(a)\n    return a + 1\n",
    "a.js": "function f(a, b) {\n  if (a > 1 && b) {\n    throw new Error('x');\n  }\n  g(a);\n  return a + 1;\n}\n",
    "a.ts": "const f = (a: number, b?: number): number => {\n  if (a > 1 && b) {\n    throw new Error('x');\n  }\n  g(a);\n  return a + 1;\n};\n",
    "a.tsx": "export function F(a: number) {\n  g(a);\n  return a > 1 ? <b>x</b> : null;\n}\n",
    "a.go": 'package a\n\nfunc f(a int, b bool) int {\n\tif a > 1 && b {\n\t\tpanic("x")\n\t}\n\tg(a)\n\treturn a + 1\n}\n',
    "a.rs": 'fn f(a: i32, b: bool) -> i32 {\n    if a > 1 && b {\n        panic!("x");\n    }\n    g(a);\n    a + 1\n}\n',
    "A.java": 'class A {\n    int f(int a, boolean b) {\n        if (a > 1 && b) {\n            throw new E("x");\n        }\n        g(a);\n        return a + 1;\n    }\n}\n',
}


@pytest.mark.parametrize("path", PROGRAMS)
def test_each_language_has_mutants_of_the_result_and_of_lines(path: str) -> None:
    mutants = make_mutants({path: ("", PROGRAMS[path])}, 100)
    assert [one.is_new for one in mutants if one.is_whole] == [True]
    assert len({one.text for one in mutants}) == len(mutants) >= 4
    assert PROGRAMS[path].encode() not in [one.text for one in mutants]
    assert all(one.shown.startswith(f"{path}:") and one.owner.startswith(f"{path}:") for one in mutants)


@pytest.mark.parametrize("path", PROGRAMS)
def test_sabotage_is_in_the_changed_function_and_never_for_a_comment(path: str) -> None:
    text = PROGRAMS[path]
    broken = sabotage({path: (text, text.replace("1", "2"))})[path].decode()
    assert "sabotaged by Segue" in broken
    mark = "#" if path.endswith(".py") else "//"
    first, _, rest = text.partition("\n")
    assert sabotage({path: (text, f"{first}\n{mark} a remark\n{rest}")}) == {}
    assert sabotage({path: (text, f"{text}{mark} a remark\n")}) == {}


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("x = a == b", ["x = a != b"]),
        ("x = a not in b", ["x = a in b"]),
        ("x = a or b", ["x = a and b"]),
        ("x = True", ["x = False"]),
        ("x = f(a)", ["pass"]),
        ("x = 3", ["x = 4"]),
        ("x = 'a'", ["x = 'XX'"]),
        ("f(x)", ["pass"]),
        ("x.y = a", ["pass"]),
        ("raise E('x')", ["pass"]),
        ("logger.info('x', 3)", []),
        ("import os", []),
        ("x = (", []),
    ],
)
def test_what_a_line_becomes(line: str, becomes: list[str]) -> None:
    made = make_mutants({"a.py": ("", f"{line}\n")}, 10)
    assert [one.text.decode().rstrip("\n") for one in made] == becomes


def test_only_what_is_new_is_broken() -> None:
    changed = MODULE.replace("return n - 1", "return n - 2")
    assert {one.owner for one in make_mutants({"a.py": (MODULE, changed)}, 10)} == {"a.py:second@10"}
    table, longer = 'UNITS = {"s": 1}\n', 'UNITS = {"s": 1, "h": 3600}\n'
    assert len(make_mutants({"a.py": (table, longer)}, 10)) == 2
    moved = {"a.py": (MODULE, ""), "b.py": ("", f"{MODULE}\n\ndef third():\n    return 7\n")}
    assert {one.owner for one in make_mutants(moved, 10)} == {"b.py:third@23"}


def score(code: str, test: str, path: str = "shop.py", before: str = "", most: int = 8) -> TestStrength:
    """Measure a test that runs in a child of this process on a module of its own."""

    async def run(broken: Mapping[str, bytes], _only: Collection[str]) -> Observed:
        text = broken.get(path, code.encode()).decode()
        child = os.fork()  # a mutant may end its process
        if child:
            return Observed(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        try:
            names: dict[str, object] = {"text": text}
            exec(text if path.endswith(".py") else "", names)
            exec(test, names)
            os._exit(0)
        except BaseException:
            os._exit(1)

    return asyncio.run(measure(run, {path: (before, code)}, (), MutationLimits(most=most)))


DOUBLE = "def double(n):\n    return n * 2\n"
SHIP = """
def ship(weight, country):
    if country not in ('de', 'fr', 'it'):
        raise ValueError('no post to ' + country)
    if weight > 20:
        return 'freight'
    if weight > 5 and country != 'de':
        return 'large'
    return 'small'
"""


def test_strong_and_weak_tests_are_told_apart() -> None:
    strong = score(DOUBLE, "assert double(3) == 6")
    assert (strong.too_weak, strong.survivors) == ("", ())
    weak = score(DOUBLE, "double(3)")
    assert weak.too_weak == "no test that proves the change notices when double in line 1 is broken"
    assert "shop.py:2: - return n * 2 + return n / 2" in weak.survivors


@pytest.mark.parametrize(
    "test",
    ["assert double(3) == double(3)", "try:\n    assert double(3) == 5\nexcept AssertionError:\n    pass"],
)
def test_a_test_that_says_nothing_is_too_weak(test: str) -> None:
    assert score(DOUBLE, test).too_weak


def test_a_test_of_one_way_of_five_is_too_weak() -> None:
    found = score(SHIP, "assert ship(1, 'de') == 'small'")
    assert found.too_weak.endswith("small changes of the changed lines were noticed, less than 60%")


def test_equivalent_mutants_do_not_cap_a_function_of_two_lines() -> None:
    code = "def unique(n):\n    n = n or []\n    return sorted(set(n or []))\n"
    found = score(code, "assert unique([2, 1, 2]) == [1, 2]")
    assert (found.too_weak, found.tried < 6) == ("", True)


def test_each_new_function_must_be_noticed() -> None:
    found = score(f"{DOUBLE}def one():\n    return 1\n", "assert double(3) == 6")
    assert found.too_weak == "no test that proves the change notices when one in line 3 is broken"


def test_what_proves_a_changed_line_looks_at_what_comes_out() -> None:
    units = 'def parse(text):\n    return int(text[:-1]) * {"s": 1}[text[-1]]\n'
    changed = units.replace('"s": 1', '"s": 1, "h": 3600')
    assert score(changed, "assert parse('2h') == 7200", before=units).too_weak == ""
    assert score(changed, "parse('2s')", before=units).too_weak


def test_a_file_without_a_grammar_loses_lines() -> None:
    text = "all:\n\techo one\n# remark\n"
    assert score(text, "assert 'echo one' in text and 'all:' in text", path="rules.mk").too_weak == ""
    assert score(text, "assert text is not None", path="rules.mk").too_weak
    assert sabotage({"rules.mk": ("all:\n", text)}) == {"rules.mk": b"all:\n# remark\n"}


def test_what_was_not_measured_is_too_weak() -> None:
    assert score(DOUBLE, "assert double(3) == 6", most=0).too_weak == "not measured: `proof.mutants` is 0"
    assert score(DOUBLE, "assert double(3) == 7").too_weak.startswith("not measured: the tests that prove it")
    assert score("# nothing\n", "").too_weak.startswith("not measured")


def test_a_run_beyond_its_time_is_no_notice() -> None:
    async def run(broken: Mapping[str, bytes], _only: Collection[str]) -> Observed:
        return Observed(None if broken else 0)

    found = asyncio.run(measure(run, {"shop.py": ("", DOUBLE)}, (), MutationLimits()))
    assert (found.tried, found.noticed) == (0, 0)
    assert found.too_weak.startswith("not measured")
