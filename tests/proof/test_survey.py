"""What checks say about a tree before anybody works on it: red, green, empty, or unable to start."""

from __future__ import annotations

import asyncio
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from segue.domain.task import Task
from segue.flow.survey import allow_later
from segue.proof.execute import SealOptions
from tests.isolation.means import NAMED_IN_FILES
from tests.proof.projects import DISCOVER, PYTEST, Checkout

PY = sys.executable
CODE = {"calc.py": "def add(a, b):\n    return a + b\n", "conftest.py": ""}
GREEN = {
    **CODE,
    "tests/test_calc.py": "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
}
RED_TEST = "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 4\n"
CASES_PY = {
    **CODE,
    "tests/__init__.py": "",
    "tests/test_calc.py": "import unittest\nfrom calc import add\n\n\nclass T(unittest.TestCase):\n"
    "    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n",
}
NODE = {
    "calc.js": "exports.add = (a, b) => a + b;\n",
    "test/calc.test.js": "const test = require('node:test');\nconst assert = require('node:assert');\n"
    "const { add } = require('../calc.js');\ntest('adds', () => assert.equal(add(1, 2), 4));\n",
}


@dataclass(frozen=True)
class Case:
    """A project, a check, and what should come of it."""

    name: str
    expected: str
    argv: tuple[str, ...]
    files: dict[str, str] = field(default_factory=dict)
    plan: str = "Improve it."
    timeout: float = 300


CASES = [
    Case("node red", "red", ("node", "--test"), NODE),
    Case("node wrong path", "refused", ("node", "--test", "spec/"), NODE),
    Case("npm no script", "refused", ("npm", "test"), {**NODE, "package.json": '{"name": "x"}'}),
    Case(
        "npm script without its program",
        "refused",
        ("npm", "test"),
        {**NODE, "package.json": '{"scripts": {"test": "jest9 --ci"}}'},
    ),
    Case(
        "npm silent about a missing script",
        "refused",
        ("npm", "run", "lint", "--silent"),
        {**NODE, "package.json": '{"scripts": {"test": "node --test"}}'},
    ),
    Case(
        "npm init's own test script",
        "red",
        ("npm", "test"),
        {
            "calc.js": "",
            "package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}',
        },
    ),
    Case(
        "npm script that is red",
        "red",
        ("npm", "run", "lint"),
        {**NODE, "package.json": '{"scripts": {"lint": "grep -n TODO calc.js || (echo bad; exit 1)"}}'},
    ),
    Case("unittest red", "red", DISCOVER, {**CASES_PY, "calc.py": "def add(a, b):\n    return 0\n"}),
    Case("unittest wrong module", "refused", (PY, "-m", "unittest", "tests.other"), CASES_PY),
    Case("unittest wrong folder", "refused", (PY, "-m", "unittest", "discover", "-s", "spec"), CASES_PY),
    Case(
        "a red test about the network",
        "red",
        DISCOVER,
        {
            **CASES_PY,
            "calc.py": "def add(a, b):\n    raise OSError('getaddrinfo ENOTFOUND')\n",
        },
    ),
    Case(
        "a command that installs first",
        "refused",
        ("python3", "install.py"),
        {
            **CASES_PY,
            "install.py": "import urllib.request\n\nurllib.request.urlopen('http://registry.example/calc')\n",
        },
    ),
    Case("unittest without tests", "empty", DISCOVER, CODE),
    Case("unittest finds no pytest functions", "refused", DISCOVER, GREEN),
    Case(
        "make runs a red pytest",
        "red",
        ("make", "test"),
        {**GREEN, "tests/test_calc.py": RED_TEST, "Makefile": f"test:\n\t{' '.join(PYTEST)}\n"},
    ),
    Case(
        "make starts what is built later",
        "red",
        ("make", "test"),
        {**CODE, "Makefile": "test:\n\t./build/app\n"},
    ),
    Case(
        "script without its program", "refused", ("sh", "check.sh"), {**CODE, "check.sh": "shellcheck9 x\n"}
    ),
    Case("script that a task adds", "red", ("sh", "check.sh"), CODE, "Add check.sh."),
    Case("script that is silently red", "red", ("sh", "check.sh"), {**CODE, "check.sh": "exit 1\n"}),
    Case("script with a failed assertion", "red", (PY, "check.py"), {**CODE, "check.py": "assert 1 == 2\n"}),
    Case("script without its library", "refused", (PY, "check.py"), {**CODE, "check.py": "import yaml9\n"}),
    Case(
        "no test file has its library",
        "refused",
        PYTEST,
        {
            **CODE,
            "tests/test_a.py": "import lib9\n\n\ndef test_a(): ...\n",
            "tests/test_b.py": "import lib9\n\n\ndef test_b(): ...\n",
        },
    ),
    Case(
        "a test that waits for its code",
        "red",
        PYTEST,
        {
            **CODE,
            "tests/test_slug.py": "from slug import slug\n\n\ndef test_it():\n    assert slug('A') == 'a'\n",
        },
    ),
    Case(
        "tests that wait for a module of the plan",
        "red",
        PYTEST,
        {
            **CODE,
            "tests/test_a.py": "import shop\n\n\ndef test_a(): ...\n",
            "tests/test_b.py": "import shop\n\n\ndef test_b(): ...\n",
        },
        "Write the package shop.",
    ),
    Case("a word that selects nothing", "refused", (*PYTEST, "-k", "nothing"), GREEN),
    Case("a marker of the plan", "red", (*PYTEST, "-m", "slow"), GREEN, "Add tests with the marker slow."),
    Case("an option of a plug-in", "refused", (*PYTEST, "-n", "4"), GREEN),
    Case(
        "settings of a plug-in",
        "refused",
        PYTEST,
        {**GREEN, "pytest.ini": "[pytest]\naddopts = --cov=calc\n"},
    ),
    Case("too slow", "refused", (PY, "-c", "import time; time.sleep(60)"), CODE, timeout=1),
    Case("a wrong option", "refused", (PY, "-m", "json.tool", "--bogus"), CODE),
    Case("a file to come", "red", ("test", "-f", "dist/out.txt"), CODE),
    Case("a file to come, with words", "red", ("grep", "-q", "done", "notes.md"), CODE),
    Case(
        "a red linter",
        "red",
        ("make", "lint"),
        {**CODE, "Makefile": "lint:\n\t@echo calc.py:1: bad; exit 1\n"},
    ),
    Case("no Makefile", "refused", ("make", "test"), GREEN),
    Case("nothing yet", "red", ("make", "test"), {"README.md": "# Soon\n"}),
    Case(
        "a Makefile that cannot be read",
        "refused",
        ("make", "test"),
        {**CODE, "Makefile": "test:\n  spaces\n"},
    ),
    Case(
        "a target of the plan",
        "red",
        ("make", "lint"),
        {**CODE, "Makefile": "t:\n\ttrue\n"},
        "Add a lint target.",
    ),
    Case("one file of two", "red", PYTEST, {**GREEN, "tests/test_b.py": "def test_b(:\n"}),
    Case("conftest with a mistake", "refused", PYTEST, {**GREEN, "tests/conftest.py": "def f(:\n"}),
    Case("only helpers", "empty", PYTEST, {**CODE, "tests/helpers.py": "def make(): ...\n"}),
    Case("everything red", "red", PYTEST, {**GREEN, "tests/test_calc.py": RED_TEST}),
    Case(
        "everything skipped",
        "green",
        PYTEST,
        {**CODE, "tests/test_a.py": "import pytest\n\n\n@pytest.mark.skip\ndef test_a(): ...\n"},
    ),
    Case("green", "green", PYTEST, GREEN),
    Case("a program that is not there", "refused", ("lint9", "."), CODE),
    Case("a program of the project to come", "red", ("./check", "all"), CODE),
]

SCRIPT = "import sys\nprint({said!r})\nsys.exit({code})\n"


def script(said: str, code: int = 1) -> dict[str, str]:
    """A check of the project's own that prints this."""
    return {**CODE, "lint.py": SCRIPT.format(said=said, code=code)}


CASES += [
    Case("a shell that changes to no folder", "refused", ("sh", "-c", "cd web && node --test"), GREEN),
    Case("one path of two", "refused", (*PYTEST, "tests", "spec"), GREEN),
    Case("a shell without its program", "refused", ("sh", "-c", "pytest9 -q"), GREEN),
    Case("env without its program", "refused", ("env", "A=1", "lint9", "."), CODE),
    Case("a script of a framework to come", "red", (PY, "manage.py", "test"), CODE),
    Case("unittest with one broken file", "red", DISCOVER, {**CASES_PY, "tests/test_calc.py": "def f(:\n"}),
    Case(
        "node script with a failed assertion",
        "red",
        ("node", "check.mjs"),
        {**NODE, "check.mjs": "import assert from 'node:assert';\nassert.equal(1, 2);\n"},
    ),
    Case(
        "node script without its package",
        "refused",
        ("node", "check.js"),
        {**NODE, "check.js": "require('lodash9');\n"},
    ),
    Case(
        "node script that waits for its code",
        "red",
        ("node", "check.js"),
        {**NODE, "check.js": "require('./lib/new');\n"},
    ),
    Case(
        "make runs pytest on no folder",
        "empty",
        ("make", "test"),
        {**CODE, "Makefile": f"test:\n\t{' '.join(PYTEST)} tests\n"},
    ),
    Case(
        "make in no folder", "refused", ("make", "-C", "sub", "test"), {**CODE, "Makefile": "test:\n\ttrue\n"}
    ),
    Case(
        "make with one target of two",
        "refused",
        ("make", "lint", "test"),
        {**CODE, "Makefile": "lint:\n\ttrue\n"},
    ),
    Case(
        "npm runs a red node test",
        "red",
        ("npm", "test"),
        {**NODE, "package.json": '{"scripts": {"test": "node --test"}}'},
    ),
    Case("a wrong result", "red", (PY, "-c", "import calc; assert calc.add(1, 1) == 3"), CODE),
    Case("a crash", "red", (PY, "-c", "import os; os.kill(os.getpid(), 11)"), CODE),
    Case(
        "a fixture that fails for all",
        "red",
        PYTEST,
        {
            **GREEN,
            "tests/conftest.py": "import os\nimport pytest\n\n\n@pytest.fixture(autouse=True)\n"
            "def database():\n    return os.environ['DATABASE_URL9']\n",
        },
    ),
    Case(
        "required plug-ins",
        "refused",
        PYTEST,
        {**GREEN, "pytest.ini": "[pytest]\nrequired_plugins = pytest-no9\n"},
    ),
    Case("a later pytest", "refused", PYTEST, {**GREEN, "pytest.ini": "[pytest]\nminversion = 99\n"}),
    Case("settings that cannot be read", "refused", PYTEST, {**GREEN, "pytest.ini": "[pytest\naddopts\n"}),
    Case(
        "unittest without a library",
        "refused",
        DISCOVER,
        {**CASES_PY, "tests/test_calc.py": "import lib9\n", "tests/test_other.py": "import lib9\n"},
    ),
    Case(
        "a linter that misses a key",
        "red",
        (PY, "lint.py", "app"),
        script("error: key 'name' not found in app.json"),
    ),
    Case(
        "a script that shows the program's usage",
        "red",
        (PY, "lint.py"),
        script("usage: app [-h]\napp: error", 2),
    ),
    Case(
        "a type checker without stubs",
        "red",
        (PY, "lint.py", "src"),
        script("src/a.py:3: error: Cannot find implementation or library stub for module named 'foo'"),
    ),
    Case(
        "a linter that names its argument",
        "red",
        (PY, "lint.py", "calc"),
        script("calc.py:1: missing docstring in 'calc'"),
    ),
    Case("output to come", "red", ("diff", "expected.txt", "actual.txt"), {**CODE, "expected.txt": "1\n"}),
    Case("a Makefile elsewhere", "refused", ("make", "test"), {**CODE, "sub/Makefile": "test:\n\ttrue\n"}),
    Case("tests of another language", "empty", PYTEST, {**CODE, **NODE}),
    Case("no file of the language of the tests yet", "empty", PYTEST, {"start.sh": "echo soon\n"}),
    Case(
        "examples in a page",
        "red",
        (PY, "-m", "doctest", "README.md"),
        {**CODE, "README.md": ">>> 1 + 1\n3\n"},
    ),
]


QUICK = {
    *("npm no script", "unittest red", "script that a task adds", "script without its program"),
    *("a target of the plan", "a red linter", "conftest with a mistake", "a test that waits for its code"),
}
"""Cases for `make test`; all are tried by `make proofs`."""


def each_case() -> list[ParameterSet]:
    """Return all cases, the larger part marked as thorough."""
    assert {case.name for case in CASES} >= QUICK
    marks = {True: (), False: (pytest.mark.thorough,)}
    hidden = {True: (NAMED_IN_FILES,), False: ()}
    return [
        pytest.param(case, id=case.name, marks=(*marks[case.name in QUICK], *hidden[_is_hidden(case)]))
        for case in CASES
    ]


def _is_hidden(case: Case) -> bool:
    """Return whether only a file names our Python."""
    return sys.executable not in case.argv and any(sys.executable in text for text in case.files.values())


@pytest.mark.parametrize("case", each_case())
def test_what_a_check_says_before_anybody_works(case: Case, tmp_path: Path) -> None:
    if case.argv[0] in ("node", "npm", "make") and shutil.which(case.argv[0]) is None:
        pytest.skip(f"{case.argv[0]} is not installed")
    project = Checkout(tmp_path, {**case.files, "plan.md": "# Plan\n"}, SealOptions(timeout=case.timeout))
    found = asyncio.run(project.sealer().survey(case.argv, project.base))
    allowed = allow_later(found, (), [Task("1", case.plan, case.plan)])
    said = "refused" if allowed.state == "unready" else str(allowed.state)
    assert said == case.expected, (found, allowed)


def test_a_failing_unittest_is_shown_without_its_own_frames(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "unittest red")
    project = Checkout(tmp_path, dict(case.files), SealOptions(timeout=case.timeout))
    found = asyncio.run(project.sealer().observe(case.argv, project.base))
    assert found.report is not None
    (message,) = (one.message for one in found.report.tests.values() if one.message)
    assert "AssertionError" in message
    assert "unittest/case.py" not in message
