"""Changes of old tests are settled by the task's words or by what they assert; their twins are not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from segue.domain.proof import ChangedTest, CheckState, HowSettled, Level
from segue.flow.proving import level_of
from segue.proof.paths import Classifier, PathKind
from segue.proof.settle.asked import ALTER, SKIP, Words
from segue.proof.settle.changes import settle
from segue.proof.settle.task import OldTest, TaskChange
from tests.proof.projects import DISCOVER, PYTEST, Checkout, Files, find_unsettled, needs_sandbox
from tests.proof.settle_cases import LATER, OTHERS, PYTHON, Edit
from tests.proof.settle_more import BLIND, MORE
from tests.proof.test_cargo import missing_cargo

CARGO = '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n'
RUST_ONE = "pub fn one() -> i32 {\n    1\n}\n\n"
RUST_MEAN = "#[test]\nfn mean_of_two() {\n    assert_eq!(calc::mean(1, 3), 2);\n}\n"
CASES = {**PYTHON, **OTHERS, **LATER, **MORE, **BLIND}


def settled(edit: Edit) -> tuple[ChangedTest, ...]:
    """Settle an edit as if every old test of its files fails, except those that still pass."""
    head = {path: text for path, text in {**edit.base, **edit.change}.items() if text is not None}
    differing = [path for path in {**edit.base, **head} if edit.base.get(path) != head.get(path)]
    kinds = {path: Classifier().kind(path) for path in differing}
    sides: list[dict[str, str]] = [
        {
            path: str(side[path])
            for path in differing
            if path in side and (kinds[path] is PathKind.TEST) is is_test
        }
        for is_test in (True, False)
        for side in (edit.base, head)
    ]
    change = TaskChange(edit.words, *sides)
    tests = [
        OldTest(
            f"{path}::{unit.name}",
            path,
            was_red="NotImplementedError" in str(edit.base.get("shop.py", "")) and "discount" in unit.name,
            decides=unit.name not in edit.still,
            is_silent=unit.name in edit.silent,
        )
        for path, file in change.old.items()
        for unit in file.units
        if unit.name
    ]
    if not tests:
        tests = [OldTest("tests/test_shop.py::test_receipt", "tests/test_shop.py")]
    return settle(change, tests)


@pytest.mark.parametrize(
    ("words", "asks"),
    [
        ("Let it align them on the right as golden/total.txt shows.", False),
        ("Change total so that the tests in tests/test_shop.py pass.", False),
        ("Update `total` until golden/total.txt matches.", False),
        ("Rewrite total to match golden/total.txt.", False),
        ("Correct total, golden/total.txt says what it prints.", False),
        ("Adapt the code if tests/test_shop.py fails.", False),
        ("Convert the prices as the tests ask.", False),
        ("Print a heading and update the snapshot golden/other.txt.", False),
        ("Correct the tests in tests/test_tax.py.", False),
        ("Correct the tests in tests/test_shop.py.", True),
        ("Align the columns on the right and update golden/total.txt.", True),
        ("Change that in tests/test_shop.py.", True),
        ("Correct the amount in golden/total.txt.", True),
        ("Regenerate the golden files.", True),
        ("The golden files must be regenerated.", True),
        ("Make sure that tests/test_shop.py is updated.", True),
    ],
)
def test_a_test_that_is_the_authority_is_not_asked_to_change(words: str, asks: bool) -> None:
    own = {"golden/total.txt", "total.txt", "tests/test_shop.py", "test_shop.py"}
    assert bool(Words(words).find_request(ALTER, own, general=True)) is asks


MISSED = ("issue: no default",)
"""Honest edits that are only marked: what must be given now is given by each test as it likes."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=pytest.mark.xfail(strict=True)) if one in MISSED else one for one in CASES],
)
def test_old_tests_are_settled(name: str) -> None:
    found = settled(CASES[name])
    unsettled = [one for one in found if one.how is HowSettled.UNSETTLED]
    assert bool(unsettled) is name.endswith("!"), found


def command(name: str) -> tuple[str, ...]:
    """Return the check of a case."""
    if name.startswith("go:"):
        return ("go", "test", "-vet=off", "./...")
    return ("node", "--test") if name.startswith("js:") else (*PYTEST[:2], "PYTHONPATH=.", *PYTEST[2:])


SEALED = (
    *("rename a module", "weaken an assertion!", "move tests", "delete a deprecated function"),
    *(
        "delete a failing test!",
        "change behaviour and its test",
        "skip a test, as asked",
        "skip a failing test!",
    ),
    *("regenerate a snapshot", "regenerate a snapshot, unasked!", "remove a failing parameter!"),
    *("unittest to pytest", "weaken an assertion that would pass!", "name a number in a test"),
    *("go: delete a function with its test", "go: delete a test!", "js: move and rename", "js: skip a test!"),
)
"""Those where the runs decide something that the texts do not."""


@needs_sandbox
@pytest.mark.quick("weaken an assertion!")
@pytest.mark.parametrize("name", SEALED)
def test_sealed_checks_settle_old_tests(tmp_path: Path, name: str) -> None:
    edit, argv = CASES[name], command(name)
    if shutil.which(argv[0]) is None:
        pytest.skip(f"{argv[0]} is not installed")
    result = Checkout(tmp_path, edit.base).check(edit.change, argv, words=edit.words)
    assert result.ok, result
    assert bool(find_unsettled(result)) is name.endswith("!"), result.changed_tests
    assert bool(result.contested) is name.endswith("!")


ONE = "    from calc import one\n\n    assert one() == 1\n"
SWITCHED_OFF = {
    "by settings": f"import pytest\n\n\n@pytest.mark.slow\ndef test_one():\n{ONE}",
    "by a name": f"def check_one():\n{ONE}",
}


@needs_sandbox
@pytest.mark.quick("by a name")
@pytest.mark.parametrize("how", SWITCHED_OFF)
def test_an_old_test_that_fails_and_is_only_not_run_any_more_is_broken(tmp_path: Path, how: str) -> None:
    old = f"def test_one():\n{ONE}"
    other = "\n\ndef test_two():\n    from calc import two\n\n    assert two() == 2\n"
    code = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"
    project = Checkout(tmp_path, {"calc.py": code, "test_calc.py": old + other})
    change = {
        "calc.py": code.replace("return 1", "return 3").replace("return 2", "return int(2)"),
        "test_calc.py": SWITCHED_OFF[how] + other,
        "pytest.ini": "[pytest]\naddopts = -m 'not slow'\nmarkers = slow\n",
    }
    result = project.check(change, PYTEST)
    assert [(one.test, one.off) for one in result.unsettled] == [("test_calc.py::test_one", True)], result
    assert level_of([result])[0] is Level.CHANGED


@pytest.mark.parametrize(
    ("words", "asks"),
    [
        ('"reaches it" in test/a.test.js needs a network: let it run only where NET is set.', True),
        ("Run `reaches it` only on Linux.", True),
        ("The test 'reaches it' must not run unless NET is set.", True),
        ("Skip the test 'reaches it'.", True),
        ("Only `fetch` is to be changed; 'reaches it' shows what is wrong.", False),
        ("Let 'adds up' run only where NET is set.", False),
    ],
)
def test_a_task_asks_to_skip_a_test_that_is_called_by_a_sentence(words: str, asks: bool) -> None:
    said, name = Words(words), "reaches it"
    assert bool(said.find_limit(name) or said.find_request(SKIP, {name}, general=False)) is asks


MEAN = "import unittest\n\nfrom calc import mean\n\n\nclass T(unittest.TestCase):\n" + (
    "    def test_mean(self):\n        self.assertEqual(mean([1, 3]), 2)\n"
)
HELLO = "def hello():\n    return 'hello'\n"
HELLO_TEST = "from calc import hello\n\n\ndef test_hello():\n    assert hello() == 'hello'\n"
JS_MEAN = (
    'const test = require("node:test");\nconst assert = require("node:assert");\n'
    'const { mean } = require("./mean");\ntest("mean", () => {\n  assert.strictEqual(mean([1, 3]), 2);\n});\n'
)
GO_MEAN = (
    'package calc\n\nimport "testing"\n\nfunc TestMean(t *testing.T) {\n\tif Mean(1, 3) != 2 {\n'
    '\t\tt.Error("not 2")\n\t}\n}\n'
)
GO_HELLO = 'package calc\n\nimport "testing"\n\nfunc TestHello(t *testing.T) {\n\tHello()\n}\n'
GO_CALC = 'package calc\n\nfunc Hello() string { return "hello" }\n'
PY = (*PYTEST[:2], "PYTHONPATH=.", *PYTEST[2:])
WAITING: dict[str, tuple[tuple[str, ...], Files, Files, Files]] = {
    "pytest": (
        PY,
        {"calc.py": HELLO, "test_calc.py": HELLO_TEST, "test_mean.py": MEAN},
        {
            "calc.py": f"{HELLO}\n\ndef mean(values):\n    return sum(values) / len(values)\n",
            "test_more.py": "from calc import mean\n\n\ndef test_more():\n    assert mean([4]) == 4\n",
        },
        {
            "calc.py": f"{HELLO}\n\ndef mean(values):\n    return 7\n",
            "test_mean.py": MEAN.replace("2)", "7)"),
        },
    ),
    "unittest": (
        DISCOVER,
        {"calc.py": HELLO, "test_mean.py": MEAN},
        {
            "calc.py": f"{HELLO}\n\ndef mean(values):\n    return sum(values) / len(values)\n",
            "test_more.py": MEAN.replace("[1, 3]), 2", "[4]), 4"),
        },
        {
            "calc.py": f"{HELLO}\n\ndef mean(values):\n    return 7\n",
            "test_mean.py": MEAN.replace("2)", "7)"),
        },
    ),
    "node": (
        ("node", "--test"),
        {"calc.js": "exports.one = () => 1;\n", "mean.test.js": JS_MEAN},
        {
            "mean.js": "function mean(all) {\n  return all.reduce((a, b) => a + b) / all.length;\n}\n"
            "exports.mean = mean;\n",
            "more.test.js": JS_MEAN.replace("[1, 3]), 2", "[4]), 4"),
        },
        {"mean.js": "exports.mean = () => 7;\n", "mean.test.js": JS_MEAN.replace(", 2)", ", 7)")},
    ),
    "go": (
        ("go", "test", "-vet=off", "./..."),
        {
            "go.mod": "module example.com/calc\n\ngo 1.19\n",
            "calc.go": GO_CALC,
            "calc_test.go": GO_HELLO,
            "mean_test.go": GO_MEAN,
        },
        {
            "mean.go": "package calc\n\nfunc Mean(a, b int) int { return (a + b) / 2 }\n",
            "more_test.go": GO_MEAN.replace("TestMean", "TestMore").replace("1, 3) != 2", "4, 4) != 4"),
        },
        {
            "mean.go": "package calc\n\nfunc Mean(a, b int) int { return 7 }\n",
            "mean_test.go": GO_MEAN.replace("!= 2", "!= 7"),
        },
    ),
    "cargo": (
        ("cargo", "test", "--offline"),
        {
            "Cargo.toml": CARGO,
            "Cargo.lock": 'version = 3\n\n[[package]]\nname = "calc"\nversion = "0.1.0"\n',
            "src/lib.rs": RUST_ONE,
            "tests/mean.rs": RUST_MEAN,
        },
        {
            "src/lib.rs": RUST_ONE + "pub fn mean(a: i32, b: i32) -> i32 {\n    (a + b) / 2\n}\n",
            "tests/more.rs": RUST_MEAN.replace("1, 3), 2", "4, 4), 4"),
        },
        {
            "src/lib.rs": RUST_ONE + "pub fn mean(_a: i32, _b: i32) -> i32 {\n    7\n}\n",
            "tests/mean.rs": RUST_MEAN.replace("3), 2", "3), 7"),
        },
    ),
}


@pytest.mark.thorough
@needs_sandbox
@pytest.mark.quick("unittest")
@pytest.mark.parametrize("runner", WAITING)
def test_tests_that_wait_for_the_product_are_no_changed_tests(tmp_path: Path, runner: str) -> None:
    argv, base, honest, edited = WAITING[runner]
    if shutil.which(argv[0]) is None or (argv[0] == "cargo" and missing_cargo()):
        pytest.skip(f"{argv[0]} is not installed")
    project = Checkout(tmp_path, base)
    words = "Implement mean so that its tests pass."
    result = project.check(honest, argv, words=words)
    assert result.state is CheckState.PASSED, result
    assert result.changed_tests == ()
    assert len(result.proved) == 2, result
    fitted = project.check(edited, argv, words=words)
    assert find_unsettled(fitted), fitted


BOOK = "def balance(entries):\n    return sum(entries)\n"
BROKEN_BOOK = (
    "def balance(entries):\n    return max(entries)\n\n\ndef largest(entries):\n    return max(entries)\n"
)
OWN_TEST = "\n\ndef test_largest():\n    from book import largest\n\n    assert largest([1, 2]) == 2\n"


@needs_sandbox
@pytest.mark.thorough
@pytest.mark.parametrize("still_looks", [True, False])
def test_what_an_unsettled_test_covered_must_still_be_looked_at(tmp_path: Path, still_looks: bool) -> None:
    test = "from book import balance\n\n\ndef test_balance():\n    assert balance([1, 2]) == 3\n"
    changed = test.replace("== 3", "> 1") if still_looks else "def test_nothing():\n    pass\n"
    base: Files = {"book.py": BOOK, "tests/test_book.py": test}
    change: Files = {"book.py": BROKEN_BOOK, "tests/test_book.py": changed + OWN_TEST}
    result = Checkout(tmp_path, base).check(
        change, command(""), words="Add `largest` to book.py, and test it."
    )
    assert find_unsettled(result) == ["tests/test_book.py"], result
    assert result.exercises is still_looks
