"""What checks say about a tree before anybody works on it: red, green, empty, or unable to start."""

from __future__ import annotations

import asyncio
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

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
    Case("npm no script", "refused", ("npm", "test"), {**NODE, "package.json": '{"name": "x"}'}),
    Case("unittest red", "red", DISCOVER, {**CASES_PY, "calc.py": "def add(a, b):\n    return 0\n"}),
    Case("unittest without tests", "empty", DISCOVER, CODE),
    Case(
        "make runs a red pytest",
        "red",
        ("make", "test"),
        {**GREEN, "tests/test_calc.py": RED_TEST, "Makefile": f"test:\n\t{' '.join(PYTEST)}\n"},
    ),
    Case(
        "script without its program", "refused", ("sh", "check.sh"), {**CODE, "check.sh": "shellcheck9 x\n"}
    ),
    Case("script that a task adds", "red", ("sh", "check.sh"), CODE, "Add check.sh."),
    Case(
        "a test that waits for its code",
        "red",
        PYTEST,
        {
            **CODE,
            "tests/test_slug.py": "from slug import slug\n\n\ndef test_it():\n    assert slug('A') == 'a'\n",
        },
    ),
    Case("a word that selects nothing", "refused", (*PYTEST, "-k", "nothing"), GREEN),
    Case("an option of a plug-in", "refused", (*PYTEST, "-n", "4"), GREEN),
    Case("too slow", "refused", (PY, "-c", "import time; time.sleep(60)"), CODE, timeout=1),
    Case(
        "a red linter",
        "red",
        ("make", "lint"),
        {**CODE, "Makefile": "lint:\n\t@echo calc.py:1: bad; exit 1\n"},
    ),
    Case("conftest with a mistake", "refused", PYTEST, {**GREEN, "tests/conftest.py": "def f(:\n"}),
    Case(
        "everything skipped",
        "green",
        PYTEST,
        {**CODE, "tests/test_a.py": "import pytest\n\n\n@pytest.mark.skip\ndef test_a(): ...\n"},
    ),
    Case("green", "green", PYTEST, GREEN),
    Case("a program that is not there", "refused", ("lint9", "."), CODE),
]


def _is_hidden(case: Case) -> bool:
    """Return whether only a file names our Python."""
    return sys.executable not in case.argv and any(sys.executable in text for text in case.files.values())


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=(NAMED_IN_FILES,) if _is_hidden(case) else ()) for case in CASES],
)
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
