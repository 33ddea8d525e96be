"""Each runner reports its tests one by one, with the reason of a failure, and a canary that must fail."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from segue.proof.report import Canary, Reason, Report, TestOutcome
from segue.proof.runners import FALLBACKS
from tests.proof.staged import run

PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:randomly")
UNITTEST = (sys.executable, "-m", "unittest", "discover")
NODE = ("node", "--test", "test/")
GO = ("go", "test", "-vet=off", "./...")
CARGO = ("cargo", "test", "--offline", "--quiet")


@cache
def works(*argv: str) -> bool:
    if shutil.which(argv[0]) is None:
        return False
    return subprocess.run(argv, capture_output=True, timeout=60, check=False).returncode == 0


needs_node = pytest.mark.skipif(not works("node", "--version"), reason="node is not installed")
needs_go = pytest.mark.skipif(not works("go", "version"), reason="go is not installed")
needs_cargo = pytest.mark.skipif(not works("cargo", "--version"), reason="cargo does not work")


def outcomes(report: Report | None) -> dict[str, str]:
    assert report is not None
    return {
        key: f"{case.outcome}: {case.reason}" if case.reason else str(case.outcome)
        for key, case in report.tests.items()
    }


SHOP = "def one():\n    return 1\n\ndef broken():\n    raise KeyError('x')\n"
PY_TESTS = """import pytest
import shop

def test_one(): assert shop.one() == 1
def test_two(): assert shop.one() == 2
def test_missing(): shop.two()
def test_raised(): shop.broken()
@pytest.mark.skip
def test_skipped(): pass
@pytest.mark.parametrize("n", [1, 2])
def test_each(n): assert n == 1
def test_cache(cache):
    cache.set("a/b", 1)
    assert cache.get("a/b", 0) == 1
"""


def test_pytest_reports_each_test_with_its_reason(tmp_path: Path) -> None:
    files = {"shop.py": SHOP, "test_shop.py": PY_TESTS, "test_gone.py": "import gone\n"}
    report, ended = run(tmp_path, PYTEST, files)
    assert report is not None
    assert outcomes(report) == {
        "test_shop.py::test_one": "passed",
        "test_shop.py::test_two": "failed: assertion",
        "test_shop.py::test_missing": "failed: missing name",
        "test_shop.py::test_raised": "failed: exception in the code under test",
        "test_shop.py::test_skipped": "skipped",
        "test_shop.py::test_each[1]": "passed",
        "test_shop.py::test_each[2]": "failed: assertion",
        "test_shop.py::test_cache": "passed",
        "test_gone.py": "failed: missing name",
    }
    assert report.tests["test_gone.py"].whole_file
    assert (report.canary, report.runners, ended.exit_code) == (Canary.FAILED, ("pytest",), 1)


def test_pytest_runs_only_what_is_wanted(tmp_path: Path) -> None:
    files = {"shop.py": SHOP, "test_shop.py": PY_TESTS, "test_more.py": "def test_more(): pass\n"}
    report, _ = run(tmp_path, PYTEST, files, ["test_more.py", "test_shop.py::test_one"])
    assert outcomes(report) == {"test_shop.py::test_one": "passed", "test_more.py::test_more": "passed"}
    report, ended = run(tmp_path, PYTEST, files, ["test_elsewhere.py"])
    assert (outcomes(report), ended.exit_code) == ({}, 0)


def test_a_runner_that_hides_failures_is_silent_or_reports_nothing(tmp_path: Path) -> None:
    test = "import shop\n\ndef test_one(): assert shop.one() == 2\n"
    patched = "from _pytest.python import Function\n\nFunction.runtest = lambda self: None\n"
    report, _ = run(tmp_path, PYTEST, {"shop.py": patched + SHOP, "test_shop.py": test})
    assert report is not None
    assert report.canary is Canary.SILENT
    report, _ = run(tmp_path, PYTEST, {"shop.py": "import os\nos._exit(0)\n", "test_shop.py": test})
    assert report is None


def test_pytest_reports_junit_where_a_plugin_cannot_be_found(tmp_path: Path) -> None:
    files = {"shop.py": SHOP, "test_shop.py": PY_TESTS}
    argv = ("env", "PYTHONPATH=.", *PYTEST)
    assert run(tmp_path, argv, files)[0] is None
    report, _ = run(tmp_path, argv, files, runners=FALLBACKS)
    assert report is not None
    assert report.ids(TestOutcome.PASSED) == {
        "test_shop::test_one",
        "test_shop::test_each[1]",
        "test_shop::test_cache",
    }
    assert report.tests["test_shop::test_two"].file == "test_shop.py"


def test_a_pytest_that_a_test_starts_is_not_recorded(tmp_path: Path) -> None:
    inner = (
        f"import subprocess\n\ndef test_it():\n    subprocess.run({(*PYTEST, 'inner.py')!r}, check=False)\n"
    )
    report, _ = run(
        tmp_path, PYTEST, {"test_outer.py": inner, "inner.py": "def test_inner(): assert False\n"}
    )
    assert outcomes(report) == {"test_outer.py::test_it": "passed"}


CASES = """import unittest
import shop

class ShopTest(unittest.TestCase):
    def test_one(self): self.assertEqual(shop.one(), 1)
    def test_two(self): self.assertEqual(shop.one(), 2)
    def test_missing(self): shop.two()
    @unittest.skip("later")
    def test_skipped(self): pass
    def test_parts(self):
        for n in (1, 2):
            with self.subTest(n=n): self.assertEqual(n, 1)
"""


def test_unittest_reports_each_test_with_its_reason(tmp_path: Path) -> None:
    files = {"shop.py": SHOP, "test_shop.py": CASES, "test_gone.py": "import gone\n"}
    report, _ = run(tmp_path, UNITTEST, files)
    assert report is not None
    assert outcomes(report) == {
        "test_shop.ShopTest.test_one": "passed",
        "test_shop.ShopTest.test_two": "failed: assertion",
        "test_shop.ShopTest.test_missing": "failed: missing name",
        "test_shop.ShopTest.test_skipped": "skipped",
        "test_shop.ShopTest.test_parts": "failed: assertion",
        "test_gone.py": "failed: missing name",
    }
    assert report.canary is Canary.FAILED
    assert outcomes(run(tmp_path, UNITTEST, files, ["test_shop.ShopTest.test_one"])[0]) == {
        "test_shop.ShopTest.test_one": "passed"
    }


def test_a_patched_assertion_of_unittest_is_silent(tmp_path: Path) -> None:
    patched = f"import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n{SHOP}"
    for argv in (UNITTEST, PYTEST):
        report, _ = run(tmp_path, argv, {"shop.py": patched, "test_shop.py": CASES})
        assert report is not None
        assert report.canary is Canary.SILENT


NODE_TESTS = """const { test } = require("node:test");
const assert = require("node:assert");
const calc = require("../calc.js");
test("one", () => assert.strictEqual(calc.one(), 1));
test("two", () => assert.strictEqual(calc.one(), 2));
test("missing", () => calc.two());
test("skipped", { skip: true }, () => {});
"""
CALC = "exports.one = () => 1;\n"


@needs_node
def test_node_reports_each_test_and_forgives_the_canary(tmp_path: Path) -> None:
    report, _ = run(tmp_path, NODE, {"calc.js": CALC, "test/calc.test.js": NODE_TESTS})
    assert report is not None
    assert outcomes(report) == {
        "test/calc.test.js::one": "passed",
        "test/calc.test.js::two": "failed: assertion",
        "test/calc.test.js::missing": "failed: missing name",
        "test/calc.test.js::skipped": "skipped",
    }
    assert report.canary is Canary.FAILED
    good = "".join(
        line
        for line in NODE_TESTS.splitlines(keepends=True)
        if '"two"' not in line and '"missing"' not in line
    )
    report, ended = run(tmp_path, NODE, {"calc.js": CALC, "test/calc.test.js": good})
    assert ended.exit_code == 0
    patched = f'require("assert").strictEqual = () => {{}};\n{CALC}'
    report, _ = run(tmp_path, NODE, {"calc.js": patched, "test/calc.test.js": NODE_TESTS})
    assert report is not None
    assert report.canary is Canary.SILENT
    left = f"process.exit(0);\n{CALC}"
    report, _ = run(tmp_path, NODE, {"calc.js": left, "test/calc.test.js": NODE_TESTS})
    assert report is None or report.canary is Canary.ABSENT


GO_TESTS = """package calc
import "testing"
func TestOne(t *testing.T) { if One() != 1 { t.Error("not 1") } }
func TestTwo(t *testing.T) { if One() != 2 { t.Error("not 2") } }
func TestSkipped(t *testing.T) { t.Skip("later") }
"""
GO_FILES = {"go.mod": "module calc\n\ngo 1.18\n", "calc.go": "package calc\n\nfunc One() int { return 1 }\n"}


@needs_go
def test_go_reports_each_test_and_what_cannot_be_built(tmp_path: Path) -> None:
    report, _ = run(tmp_path, GO, {**GO_FILES, "calc_test.go": GO_TESTS})
    assert report is not None
    assert outcomes(report) == {
        "calc_test.go::TestOne": "passed",
        "calc_test.go::TestTwo": "failed: assertion",
        "calc_test.go::TestSkipped": "skipped",
    }
    assert report.canary is Canary.FAILED
    report, _ = run(tmp_path, GO, {**GO_FILES, "calc_test.go": GO_TESTS}, ["calc_test.go::TestOne"])
    assert outcomes(report) == {"calc_test.go::TestOne": "passed"}
    report, _ = run(tmp_path, GO, {**GO_FILES, "calc_test.go": GO_TESTS.replace("One() != 2", "Two() != 2")})
    assert outcomes(report) == {"calc_test.go": "failed: missing name"}


UNIT = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn inner() { assert_eq!(super::one(), 1) }\n}\n"
ONE = "#[test]\nfn one() { assert_eq!(calc::one(), 1) }\n"
CRATE = {
    "Cargo.toml": '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n',
    "src/lib.rs": "pub fn one() -> i32 { 1 }\n" + UNIT,
    "tests/calc.rs": ONE + "#[test]\nfn two() { assert_eq!(calc::one(), 2) }\n",
}


@needs_cargo
def test_cargo_reports_each_test_and_what_cannot_be_built(tmp_path: Path) -> None:
    report, _ = run(tmp_path, (*CARGO, "--no-fail-fast"), CRATE)
    assert report is not None
    assert outcomes(report) == {
        "calc::tests::inner": "passed",
        "tests/calc.rs::one": "passed",
        "tests/calc.rs::two": "failed: assertion",
    }
    assert report.canary is Canary.FAILED
    report, _ = run(tmp_path, CARGO, {**CRATE, "tests/calc.rs": "#[test]\nfn two() { calc::two() }\n"})
    assert "failed: missing name" in outcomes(report)["tests/calc.rs"]


def test_junit_is_read_wherever_a_command_writes_it(tmp_path: Path) -> None:
    failure = "<testcase classname='a.b' name='y'><failure message='assert 1'/></testcase>"
    passed = "<testcase classname='a.b' name='x'/>"
    xml = f"<testsuite>{passed}{failure}<testcase name='z'><skipped/></testcase></testsuite>"
    files = {"a/b.test": "", "result.txt": xml, "old.xml": "<testsuite><testcase name='old'/></testsuite>"}
    report, _ = run(tmp_path, ("cp", "result.txt", "result.xml"), files)
    assert outcomes(report) == {"a.b::x": "passed", "a.b::y": "failed: assertion", "z": "skipped"}
    assert run(tmp_path, ("cp", "result.txt", "other.txt"), files)[0] is None
    unsafe = {**files, "result.txt": f'<!DOCTYPE a [<!ENTITY x "y">]>{xml}'}
    assert run(tmp_path, ("cp", "result.txt", "result.xml"), unsafe)[0] is None
    assert run(tmp_path, ("true",), files)[1].exit_code == 0


def test_a_reason_that_fits_says_what_the_tests_wait_for() -> None:
    assert [reason for reason in Reason if not reason.is_right] == [Reason.SYNTAX, Reason.OTHER]
