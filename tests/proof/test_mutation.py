"""Mutants change one thing in the changed lines of any language; sabotage breaks what changed, and only that."""
# ruff: noqa: E501 - programs are easier to compare in one line

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping

import pytest

from segue.proof.mutation.mutate import make_mutants, sabotage
from segue.proof.mutation.sharpness import Effort, Sharpness, measure
from segue.proof.mutation.source import has_only_values
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
    "a.ts": "const f = (a: number, b?: number): number => {\n  if (a > 1 && b) {\n    throw new Error('x');\n  }\n"
    "  g(a);\n  return a + 1;\n};\n",
    "a.tsx": "export function F(a: number) {\n  g(a);\n  return a > 1 ? <b>x</b> : null;\n}\n",
    "a.go": 'package a\n\nfunc f(a int, b bool) int {\n\tif a > 1 && b {\n\t\tpanic("x")\n\t}\n\tg(a)\n\treturn a + 1\n}\n',
    "a.rs": 'fn f(a: i32, b: bool) -> i32 {\n    if a > 1 && b {\n        panic!("x");\n    }\n    g(a);\n    a + 1\n}\n',
    "A.java": 'class A {\n    int f(int a, boolean b) {\n        if (a > 1 && b) {\n            throw new E("x");\n        }\n'
    "        g(a);\n        return a + 1;\n    }\n}\n",
    "a.rb": "def f(a, b)\n  if a > 1 && b\n    raise 'x'\n  end\n  g(a)\n  a + 1\nend\n",
    "a.c": "int f(int a, int b) {\n    if (a > 1 && b) {\n        return 7;\n    }\n    g(a);\n    return a + 1;\n}\n",
    "a.cs": 'class A {\n    int F(int a, bool b) {\n        if (a > 1 && b) {\n            throw new E("x");\n        }\n'
    "        G(a);\n        return a + 1;\n    }\n}\n",
    "a.php": "<?php\nfunction f($a, $b) {\n    if ($a > 1 && $b) {\n        throw new E('x');\n    }\n    g($a);\n    return $a + 1;\n}\n",
    "a.sh": '#!/bin/sh\nf() {\n    if [ "$1" -gt 1 ]; then\n        echo "x y"\n    fi\n    g "$1"\n    return 1\n}\n',
}


@pytest.mark.parametrize("path", PROGRAMS)
def test_each_language_has_mutants_of_whole_results_and_of_lines(path: str) -> None:
    text = PROGRAMS[path]
    mutants = make_mutants({path: ("", text)}, "seed", 100)
    assert len(mutants.suspects) == 1
    assert mutants.suspects[0].is_new
    assert mutants.suspects[0].whole
    assert mutants.suspects[0].leave is not None
    kinds = {one.operator for one in mutants.others}
    assert {"condition", "statement"} <= kinds
    texts = [one.text for one in (*mutants.others, *mutants.suspects[0].whole)]
    assert text.encode() not in texts
    assert len(set(texts)) == len(texts)
    assert all(one.shown.startswith(f"{path}:{one.line}: - ") for one in mutants.others)


@pytest.mark.parametrize("path", PROGRAMS)
def test_sabotage_is_in_the_changed_function_and_never_for_a_comment(path: str) -> None:
    text = PROGRAMS[path]
    changed = text.replace("1", "2")
    broken = sabotage({path: (text, changed)})[path].decode()
    assert "sabotaged by Segue" in broken or "__builtin_trap" in broken or "exit 97" in broken
    mark = "#" if path.endswith((".py", ".rb", ".sh")) else "//"
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
        ("x = ''", ["x = 'XX'"]),
        ("x = 3", ["x = 0"]),
        ("x = f'a {b}'", ["x = f'XX{b}'"]),
        ("f(x)", ["pass"]),
        ("x.y = a", ["pass"]),
        ("logger.info('x', 3)", []),
        ("x: 'int'", ["pass"]),
        ("import os", []),
        ("x = (", []),
    ],
)
def test_what_a_line_becomes(line: str, becomes: list[str]) -> None:
    made = make_mutants({"a.py": ("", f"{line}\n")}, "seed", 10).others
    assert [one.text.decode().rstrip("\n") for one in made] == becomes


def score(
    code: str, test: str, effort: Effort | None = None, path: str = "shop.py", before: str = ""
) -> Sharpness:
    """Measure a test that runs in this process on a module of its own."""

    async def run(broken: Mapping[str, bytes], _only: Collection[str], _blind: bool) -> Observed:
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

    return asyncio.run(measure(run, {path: (before, code)}, (), effort or Effort()))


DOUBLE = "def double(n):\n    return n * 2\n"


def test_sharp_and_blunt_tests_are_told_apart() -> None:
    sharp = score(DOUBLE, "assert double(3) == 6")
    assert (sharp.blunt, sharp.survivors) == ("", ())
    blunt = score(DOUBLE, "double(3)")
    assert blunt.blunt == "no test looks at what comes out of double"
    assert "shop.py:2: - return n * 2 + return n / 2" in blunt.survivors


def test_what_was_not_measured_is_never_sharp() -> None:
    assert (
        score(DOUBLE, "assert double(3) == 6", Effort(most=0)).blunt == "not measured: `proof.mutants` is 0"
    )
    assert score(DOUBLE, "assert double(3) == 7").blunt.startswith(
        "not measured: the tests that prove it do not"
    )
    assert score("# nothing\n", "").blunt.startswith("not measured")


def test_a_function_that_no_test_reaches_counts_once() -> None:
    one = "def one():\n    return 1\n"
    extra = [f"def extra{n}(a, b, c):\n    return a + b - c * 3\n" for n in range(3)]
    assert score(DOUBLE + one + extra[0], "assert double(3) == 6 and one() == 1").blunt == ""
    found = score(DOUBLE + one + "".join(extra), "assert double(3) == 6 and one() == 1")
    assert found.blunt.startswith("no test that proves the change reaches extra")


def test_a_file_without_a_grammar_is_emptied_and_loses_lines() -> None:
    text = "all:\n\techo one\n"
    assert score(text, "assert 'echo one' in text and 'all:' in text", path="rules.mk").blunt == ""
    assert score(text, "assert text is not None", path="rules.mk").blunt


UNITS = 'def parse(text):\n    return int(text[:-1]) * {"s": 1}[text[-1]]\n'


def test_what_proves_a_changed_line_must_look_at_what_comes_out() -> None:
    changed = UNITS.replace('"s": 1', '"s": 1, "h": 3600')
    assert score(changed, "assert parse('2h') == 7200", before=UNITS).blunt == ""
    called = score(changed, "parse('2h')", before=UNITS)
    assert called.blunt == "no test looks at what comes out of parse"


@pytest.mark.parametrize(
    ("path", "text", "only"),
    [
        ("a.py", "A = 3\nB = [A, 1]\n", True),
        ("a.py", "# The prices.\nA = 3\n", True),
        ("a.js", "export const A = { a: 1 }\n", True),
        ("a.py", "def f():\n    a = 1\n", False),
        ("a.js", "const f = (x) => x\n", False),
        ("a.c", "int f(int a) { int b = a; return b; }\n", False),
        ("a.sh", "A=$(date)\n", False),
        ("a.unknown", "A = 3\n", False),
    ],
)
def test_a_file_of_values_is_known_by_its_grammar(path: str, text: str, only: bool) -> None:
    assert has_only_values(path, text) is only


def test_a_mutant_that_takes_too_long_says_nothing() -> None:
    async def run(broken: Mapping[str, bytes], _only: Collection[str], _blind: bool) -> Observed:
        return Observed(None if broken.get("shop.py", DOUBLE.encode()) != DOUBLE.encode() else 0)

    found = asyncio.run(measure(run, {"shop.py": ("", DOUBLE)}, (), Effort()))
    assert (found.tried, found.noticed) == (0, 0)
    assert found.blunt.startswith("not measured")
