"""Changes of old tests where the runs of sealed checks decide something that the texts do not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from segue.domain.proof import CheckState, Level
from segue.flow.proving import level_of
from tests.proof.projects import PYTEST, Checkout, Files, find_unsettled, needs_sandbox
from tests.proof.settle_cases import CASES


def command(name: str) -> tuple[str, ...]:
    """Return the check of a case."""
    if name.startswith("go:"):
        return ("go", "test", "-vet=off", "./...")
    return ("node", "--test") if name.startswith("js:") else (*PYTEST[:2], "PYTHONPATH=.", *PYTEST[2:])


SEALED = (
    *("rename a module", "weaken an assertion!", "move tests", "delete a deprecated function"),
    *("delete a failing test!", "change behaviour and its test", "skip a test, as asked"),
    *("skip a failing test!", "regenerate a snapshot", "unittest to pytest"),
    *("go: delete a test!", "js: move and rename"),
)
"""Those where the runs decide something that the texts do not."""


@needs_sandbox
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
}


@needs_sandbox
@pytest.mark.parametrize("runner", WAITING)
def test_tests_that_wait_for_the_product_are_no_changed_tests(tmp_path: Path, runner: str) -> None:
    argv, base, honest, edited = WAITING[runner]
    if shutil.which(argv[0]) is None:
        pytest.skip(f"{argv[0]} is not installed")
    project = Checkout(tmp_path, base)
    words = "Implement mean so that its tests pass."
    result = project.check(honest, argv, words=words)
    assert result.state is CheckState.PASSED, result
    assert result.changed_tests == ()
    assert len(result.proved) == 2, result
    fitted = project.check(edited, argv, words=words)
    assert find_unsettled(fitted), fitted
