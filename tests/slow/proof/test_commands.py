"""Every command that people use as a check reports its tests where its runner can, else by its exit code."""

# ruff: noqa: E501 - small programs, a file each in one line
from __future__ import annotations

import asyncio
import shlex
import subprocess
import textwrap
from pathlib import Path

import pytest
from msgspec import Struct

from segue.domain.proof import CheckState
from segue.proof.execute import SealOptions
from tests.proof.packages import node_modules
from tests.proof.projects import Checkout, Files, needs_sandbox
from tests.proof.tools import js_on_path, program, python_on_path

pytestmark = needs_sandbox

SHOP = {"shop.py": "def total(prices):\n    return sum(prices)\n"}
MEAN = {"shop.py": f"{SHOP['shop.py']}\n\ndef mean(prices):\n    return sum(prices) / len(prices)\n"}
TOTAL_TEST = "from shop import total\n\n\ndef test_total():\n    assert total([1, 2]) == 3\n"
MEAN_TEST = "from shop import mean\n\n\ndef test_mean():\n    assert mean([1, 3]) == 2\n"
PYTHON: Files = {**SHOP, "tests/test_shop.py": TOTAL_TEST, "conftest.py": ""}
PYTHON_DONE: Files = {**MEAN, "tests/test_mean.py": MEAN_TEST}
PROVED = "tests/test_mean.py::test_mean"


def text(lines: str) -> str:
    return textwrap.dedent(lines).lstrip()


class Command(Struct, frozen=True):
    """A check, a project that uses it, and honest work with a new test."""

    argv: str
    base: Files
    change: Files
    proved: str = PROVED
    runner: str = "pytest"
    needs: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    """Commands that the user has run in the work tree."""
    ignored: str = ""
    network: bool = False
    makes: bool = False
    """Whether it makes an environment for itself, before the run."""


PYPROJECT = text("""
    [project]
    name = "shop"
    version = "1.0"
    requires-python = ">=3.11"
    [build-system]
    requires = ["setuptools"]
    build-backend = "setuptools.build_meta"
    [tool.setuptools]
    py-modules = ["shop"]
    [dependency-groups]
    dev = ["pytest"]
    """)
NODE_TEST = "const test = require('node:test');\nconst assert = require('node:assert');\n"
JS_TOTAL = "exports.total = (p) => p.reduce((a, b) => a + b, 0);\n"
JS_MEAN = f"{JS_TOTAL}exports.mean = (p) => exports.total(p) / p.length;\n"
JS_OLD = f"{NODE_TEST}const {{ total }} = require('../shop');\ntest('total', () => assert.equal(total([1, 2]), 3));\n"
JS_NEW = (
    f"{NODE_TEST}const shop = require('../shop');\ntest('mean', () => assert.equal(shop.mean([1, 3]), 2));\n"
)
NODE: Files = {"shop.js": JS_TOTAL, "test/shop.test.js": JS_OLD}
NODE_DONE: Files = {"shop.js": JS_MEAN, "test/mean.test.js": JS_NEW}
NODE_PROVED = "test/mean.test.js::mean"
SCRIPTS = '{"name": "shop", "version": "1.0.0", "scripts": {"test": "node --test"}}\n'
PACKAGED: Files = {**NODE, "package.json": SCRIPTS}
BARE = JS_OLD.replace(NODE_TEST, "const assert = require('node:assert');\n")
BARE_NEW = JS_NEW.replace(NODE_TEST, "const assert = require('node:assert');\n")
GO: Files = {
    "go.mod": "module shop\n\ngo 1.19\n",
    "shop.go": "package shop\n\nfunc Total(a, b int) int { return a + b }\n",
    "shop_test.go": 'package shop\n\nimport "testing"\n\nfunc TestTotal(t *testing.T) {\n\tif Total(1, 2) != 3 {\n\t\tt.Fatal("wrong")\n\t}\n}\n',
}
GO_DONE: Files = {
    "shop.go": "package shop\n\nfunc Total(a, b int) int { return a + b }\n\nfunc Mean(a, b int) int { return Total(a, b) / 2 }\n",
    "mean_test.go": 'package shop\n\nimport "testing"\n\nfunc TestMean(t *testing.T) {\n\tif Mean(1, 3) != 2 {\n\t\tt.Fatal("wrong")\n\t}\n}\n',
}
TOX = "[tox]\nskipsdist = true\n[testenv]\ndeps = pytest\ncommands = pytest -q tests\n"


DOCTEST = 'def total(p):\n    """Add.\n\n    >>> total([1, 2])\n    3\n    """\n    return sum(p)\n'
DOCTEST_MEAN = f'{DOCTEST}\n\ndef mean(p):\n    """Mean.\n\n    >>> mean([1, 3])\n    2.0\n    """\n    return sum(p) / len(p)\n'

CASES: dict[str, Command] = {
    "pytest": Command("pytest -q", PYTHON, PYTHON_DONE),
    "xdist": Command("pytest -q -n 2 -p no:randomly", PYTHON, PYTHON_DONE),
    "cov": Command("pytest -q --cov=shop --cov-fail-under=50", PYTHON, PYTHON_DONE),
    "make": Command("make test", {**PYTHON, "Makefile": "test:\n\tpytest -q\n"}, PYTHON_DONE),
    "tox": Command("tox -q", {**PYTHON, "tox.ini": TOX}, PYTHON_DONE, makes=True),
    "uv run": Command(
        "uv run pytest -q",
        {**PYTHON, "pyproject.toml": PYPROJECT},
        PYTHON_DONE,
        before=("uv sync -q",),
        ignored=".venv\n*.egg-info\nuv.lock\n",
    ),
    "npm": Command(
        "npm test", {**NODE, "package.json": SCRIPTS}, NODE_DONE, NODE_PROVED, "node:test", ("npm",)
    ),
    "pnpm": Command("pnpm test", PACKAGED, NODE_DONE, NODE_PROVED, "node:test", ("node",)),
    "node --test": Command("node --test", NODE, NODE_DONE, NODE_PROVED, "node:test", ("node",)),
    "npx mocha": Command(
        "npx mocha test",
        {**NODE, "test/shop.test.js": BARE.replace("test(", "it("), "package.json": SCRIPTS},
        {**NODE_DONE, "test/mean.test.js": BARE_NEW.replace("test(", "it(")},
        NODE_PROVED,
        "mocha",
        ("npx", "node_modules"),
        ignored="node_modules\n",
    ),
    "jest": Command(
        "npx jest",
        {**NODE, "test/shop.test.js": BARE, "package.json": SCRIPTS},
        {**NODE_DONE, "test/mean.test.js": BARE_NEW},
        NODE_PROVED,
        "jest",
        ("npx", "node_modules"),
        ignored="node_modules\n",
    ),
    "go": Command("go test ./...", GO, GO_DONE, "mean_test.go::TestMean", "go test", ("go",)),
    "pytest doctests": Command(
        "pytest -q --doctest-modules",
        {"shop.py": DOCTEST},
        {"shop.py": DOCTEST_MEAN},
        "shop.py::shop.mean",
        "pytest",
    ),
}


JS_LAUNCHED = ("pnpm",)
PYTHON_LAUNCHED = ("xdist", "cov", "tox", "uv")


@pytest.mark.parametrize("name", CASES)
def test_a_command_reports_its_tests(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    if name.startswith(JS_LAUNCHED):
        js_on_path(monkeypatch)
    if name.startswith(PYTHON_LAUNCHED):
        python_on_path(monkeypatch)
    for tool in case.needs:
        node_modules() if tool == "node_modules" else program(tool)
    ignore = f"__pycache__\n.pytest_cache\n{case.ignored}"
    project = Checkout(
        tmp_path, {**case.base, ".gitignore": ignore}, SealOptions(timeout=300, network=case.network)
    )
    if "node_modules" in case.needs:
        (project.root / "node_modules").symlink_to(node_modules())
    for line in case.before:
        subprocess.run(shlex.split(line), cwd=project.root, check=True, capture_output=True, text=True)
    if case.makes:
        asyncio.run(project.sealer().survey(shlex.split(case.argv), project.base))
    result = project.check(case.change, shlex.split(case.argv))
    assert result.state is CheckState.PASSED, (result.reason, result.output[-1500:])
    assert (result.runner, result.proved) == (case.runner, (case.proved,)), result
