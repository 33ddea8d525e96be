"""The parts of sealed checks: kinds of paths, merged files, JUnit, copies."""

from __future__ import annotations

import asyncio
import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.proof import CheckState
from segue.proof.compose import merge_control
from segue.proof.execute import SealOptions
from segue.proof.paths import Classifier, PathKind, matches_any, named_files, parts_of
from segue.proof.report import Reason, TestOutcome, explain
from segue.proof.runners import Stage
from segue.proof.runners.junit import read_junit
from tests.proof.projects import UNITTEST, Checkout, Files


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("tests/helpers.py", PathKind.TEST),
        ("src/app.test.ts", PathKind.TEST),
        ("pkg/store_test.go", PathKind.TEST),
        ("tests/conftest.py", PathKind.CONTROL),
        ("Makefile", PathKind.MERGED),
        ("a/b/pytest.ini", PathKind.CONTROL),
        ("x.egg-info/entry_points.txt", PathKind.CONTROL),
        ("a/node_modules/x/package.json", PathKind.CONTROL),
        ("pyproject.toml", PathKind.MERGED),
        ("web/package.json", PathKind.MERGED),
        ("src/latest.py", PathKind.CODE),
        ("src/contest/app.py", PathKind.CODE),
        ("json.py", PathKind.SHADOW),
        ("src/pytest/__init__.py", PathKind.SHADOW),
        ("app/json.py", PathKind.CODE),
        ("docs/json", PathKind.CODE),
        ("ci/run.txt", PathKind.CONTROL),
    ],
)
def test_paths_are_told_apart(path: str, kind: PathKind) -> None:
    assert Classifier(control=("ci/**",)).kind(path, new=True) is kind


def test_files_of_the_command_are_control_files() -> None:
    known = {"check.sh", "tools/lint.py", "Makefile", "app.py", "package.json"}
    assert named_files(("sh", "./check.sh", "--config=app.py"), known) == {"check.sh", "app.py"}
    assert named_files(("python", "-m", "tools.lint"), known) == {"tools/lint.py"}
    assert named_files(("make", "test"), known) == {"Makefile"}
    assert named_files(("sh", "-c", "./check.sh && true"), known) == {"check.sh"}


def test_scripts_are_followed_but_the_product_is_not() -> None:
    known = {"ci/check.sh", "ci/lib.sh", "app.sh", "app.py", "tools/a.py", "tools/b.py", "extra.mk"}
    assert parts_of("ci/check.sh", '. "$(dirname "$0")/lib.sh"\nsh app.sh\n', known) == ["ci/lib.sh"]
    assert parts_of("Makefile", "include extra.mk\nt:\n\tpython app.py; sh ci/check.sh\n", known) == [
        "extra.mk",
        "ci/check.sh",
    ]
    for looked_at in (
        'test "$$(sh ci/check.sh)" = 3',
        "sh ci/check.sh | grep -q 3",
        "[ `sh ci/check.sh` = 3 ]",
    ):
        assert parts_of("Makefile", f"t:\n\t{looked_at}\n", known) == []
    assert parts_of("Makefile", "t:\n\tsh ci/check.sh 2>&1 | tee log\n", known) == ["ci/check.sh"]
    assert parts_of("tools/a.py", "import b\nimport app\n", known) == ["tools/b.py"]


def test_known_failures_are_globs_in_which_brackets_mean_themselves() -> None:
    assert matches_any("a.py::test[x-1]", ["a.py::test[x-*]"])
    assert not matches_any("a.py::test_other", ["a.py::test"])


PYPROJECT = (
    '[project]\nname = "a"\n\n[tool.pytest.ini_options]\naddopts = "-ra"\n\n[tool.ruff]\nline-length = 1\n'
)


def test_a_pyproject_keeps_the_control_sections_of_the_base() -> None:
    head = PYPROJECT.replace("-ra", "--collect-only").replace('"a"', '"b"')
    head += '\n[project.entry-points.pytest11]\nx = "x"\n[tool.coverage.run]\nomit = ["*"]\n'
    merged = merge_control("pyproject.toml", PYPROJECT, head)
    assert merged is not None
    found = tomllib.loads(merged)
    assert found["project"] == {"name": "b"}
    assert found["tool"] == {"pytest": {"ini_options": {"addopts": "-ra"}}, "ruff": {"line-length": 1}}


def test_a_package_json_keeps_the_scripts_of_the_base() -> None:
    base = json.dumps({"scripts": {"test": "jest"}, "dependencies": {}})
    head = json.dumps({"scripts": {"test": "true"}, "dependencies": {"x": "1"}, "jest": {"testMatch": []}})
    merged = merge_control("package.json", base, head)
    assert merged is not None
    assert json.loads(merged) == {"dependencies": {"x": "1"}, "scripts": {"test": "jest"}}


def test_a_go_mod_keeps_the_replacements_of_the_base() -> None:
    base = "module a\n\nreplace x => ../x\n"
    head = "module a\n\nrequire y v1\n\nreplace (\n\ttesting => ./fake\n)\n"
    assert merge_control("go.mod", base, head) == "module a\n\nrequire y v1\n\nreplace x => ../x\n"


@given(st.text(max_size=200), st.text(max_size=200))
def test_merging_any_text_is_safe(base: str, head: str) -> None:
    for name in ("pyproject.toml", "setup.cfg", "package.json", "Cargo.toml", "go.mod"):
        merge_control(name, base, head)


@pytest.mark.parametrize(
    ("name", "message", "frames", "reason"),
    [
        ("AssertionError", "", (), Reason.ASSERTION),
        ("ModuleNotFoundError", "", (), Reason.MISSING),
        ("TypeError", "f() got an unexpected keyword argument 'x'", (), Reason.MISSING),
        ("TypeError", "unsupported operand", ("tests/a.py",), Reason.OTHER),
        ("ValueError", "", ("tests/a.py", "shop.py"), Reason.RAISED),
        ("NotImplementedError", "", (), Reason.UNFINISHED),
        ("SyntaxError", "", ("shop.py",), Reason.SYNTAX),
    ],
)
def test_failures_have_reasons(name: str, message: str, frames: tuple[str, ...], reason: Reason) -> None:
    assert explain(name, message, frames, "tests/a.py") is reason


def test_junit_files_are_read(tmp_path: Path) -> None:
    report = tmp_path / "r.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="tests.test_a.T" name="x"/>'
        '<testcase classname="tests.test_a" name="y"><failure message="AssertionError"/></testcase>'
        '<testcase classname="tests.test_a" name="z"><skipped/></testcase>'
        '<testcase classname="a.ShopTest$Inner" name="x"/></testsuite></testsuites>'
    )
    java = "src/test/java/a/ShopTest.java"
    stage = Stage((), tmp_path, tmp_path, tmp_path, tmp_path, "t", ("tests/test_a.py", java))
    found = read_junit([report, tmp_path / "missing.xml"], stage, "JUnit")
    assert found is not None
    *others, inner = found.tests.values()
    assert (inner.id, inner.file) == ("a.ShopTest$Inner::x", java)
    assert [one.outcome for one in others] == list(TestOutcome)
    assert {one.file for one in others} == {"tests/test_a.py"}
    assert found.tests["tests.test_a::y"].reason is Reason.ASSERTION


BASE: Files = {
    "shop.py": "def total(prices):\n    return sum(prices)\n",
    "tests/__init__.py": "",
    "tests/test_shop.py": "import unittest\nimport shop\n\n\nclass T(unittest.TestCase):\n"
    "    def test_total(self):\n        self.assertEqual(shop.total([1, 2]), 3)\n",
}


def test_a_copy_is_checked_whatever_the_work_tree_is_at(tmp_path: Path) -> None:
    """As when lanes are merged, or when cloud agents have worked: what is checked is checked out nowhere."""
    project = Checkout(tmp_path, BASE, SealOptions(means="copy", timeout=300))
    head = project.commit({"shop.py": "def total(prices):\n    return 42\n"})
    project.git("reset", "--quiet", "--hard", project.base)
    result = asyncio.run(project.sealer().check(UNITTEST, project.base, head))
    assert result.state is CheckState.FAILED, result
