"""A long suite is run whole only once, and still gets the verdicts of a short one."""

from __future__ import annotations

import shutil
import socketserver
import threading
from pathlib import Path

import pytest

from segue.domain.proof import CheckResult, CheckState
from segue.proof.execute import SealOptions
from tests.proof.projects import UNITTEST, Checkout, Files, needs_sandbox
from tests.proof.test_cargo import missing_cargo

pytestmark = needs_sandbox

SHOP = "def total(prices):\n    return sum(prices)\n"
MEAN = f"{SHOP}\n\ndef mean(prices):\n    return total(prices) / len(prices)\n"
BASE: Files = {
    "shop.py": SHOP,
    "helpers.py": "PRICES = [1, 2]\n",
    "test_shop.py": (
        "import shop\nfrom helpers import PRICES\n\ndef test_total():\n    assert shop.total(PRICES) == 3\n"
    ),
    "test_more.py": "import shop\n\ndef test_none():\n    assert shop.total([]) == 0\n",
}
TEST_MEAN = "from shop import mean\n\ndef test_mean():\n    assert mean([1, 3]) == 2\n"
CHANGES: dict[str, tuple[Files, CheckState]] = {
    "a test was added": ({"shop.py": MEAN, "test_mean.py": TEST_MEAN}, CheckState.PASSED),
    "a test was added to a file": (
        {"shop.py": MEAN, "test_more.py": f"{BASE['test_more.py']}\n{TEST_MEAN}"},
        CheckState.PASSED,
    ),
    "nothing notices": ({"shop.py": MEAN, "test_mean.py": "def test_mean():\n    pass\n"}, CheckState.PASSED),
    "an old test breaks": (
        {"shop.py": MEAN.replace("sum(prices)", "sum(prices) + 1"), "test_mean.py": TEST_MEAN},
        CheckState.FAILED,
    ),
    "the new test fails": (
        {"shop.py": MEAN.replace("total(prices) /", "1 /"), "test_mean.py": TEST_MEAN},
        CheckState.FAILED,
    ),
    "an old test was removed": (
        {"shop.py": MEAN, "test_mean.py": TEST_MEAN, "test_more.py": None},
        CheckState.PASSED,
    ),
    "what tests share was changed": (
        {"shop.py": MEAN, "test_mean.py": TEST_MEAN, "helpers.py": "PRICES = [3]\n"},
        CheckState.PASSED,
    ),
    "a test file that others import": (
        {
            "shop.py": MEAN,
            "test_base.py": TEST_MEAN,
            "test_more.py": f"from test_base import test_mean\n{BASE['test_more.py']}",
        },
        CheckState.PASSED,
    ),
}


def judge(folder: Path, change: Files, long: float) -> CheckResult:
    folder.mkdir()
    return Checkout(folder, BASE, SealOptions(timeout=300, long=long)).check(change)


@pytest.mark.thorough
@pytest.mark.quick("a test was added")
@pytest.mark.parametrize("name", CHANGES)
def test_a_long_suite_gets_the_verdict_of_a_short_one(tmp_path: Path, name: str) -> None:
    change, state = CHANGES[name]
    short, long = [judge(tmp_path / str(most), change, most) for most in (1e9, 0)]
    assert long.state is short.state is state, (short.reason, long.reason)
    for one in (
        "proved",
        "idle",
        "noticed",
        "broken",
        "failing",
        "passed",
        "weaknesses",
        "cap",
        "flaky",
        "own",
    ):
        assert getattr(long, one) == getattr(short, one), one


@pytest.mark.thorough
def test_the_task_after_one_with_a_long_suite_is_not_blamed(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, BASE, SealOptions(timeout=300, long=0))
    for name in ("mean", "middle"):
        code = SHOP + f"\n\ndef {name}(prices):\n    return total(prices) / len(prices)\n"
        change: Files = {
            f"{name}.py": code,
            f"test_{name}.py": TEST_MEAN.replace("shop", name).replace("mean", name),
        }
        found = checkout.check(change)
        assert found.state is CheckState.PASSED, found.reason
        checkout.advance()


@pytest.mark.thorough
def test_a_new_test_does_not_mend_the_old_ones(tmp_path: Path) -> None:
    change: Files = {
        "shop.py": "def total(prices):\n    return 0\n",
        "test_a.py": "import shop\n\nshop.total = sum\n\ndef test_a():\n    assert shop.total([1]) == 1\n",
    }
    found = judge(tmp_path / "long", change, 0)
    assert (found.state, found.broken) == (CheckState.FAILED, ("test_shop.py::test_total",))


@pytest.mark.thorough
def test_unittest_selects_files_too(tmp_path: Path) -> None:
    old = "tests/test_shop.py"
    base = {
        "shop.py": SHOP,
        "tests/__init__.py": "",
        old: (
            "import unittest\n\nimport shop\n\n\nclass Total(unittest.TestCase):\n"
            "    def test_total(self):\n        self.assertEqual(shop.total([1]), 1)\n"
        ),
    }
    test = base[old].replace("Total", "Mean").replace("test_total", "test_mean").replace(".total", ".mean")
    found = Checkout(tmp_path, base, SealOptions(timeout=300, long=0)).check(
        {"shop.py": MEAN, "tests/test_mean.py": test}, UNITTEST
    )
    assert (found.state, found.passed, found.noticed) == (CheckState.PASSED, 2, True), found
    assert found.proved == ("tests.test_mean.Mean.test_mean",)


REACHED: Files = {
    "shop.py": SHOP,
    "till.py": "import shop\n\ndef pay(prices):\n    return shop.total(prices)\n",
    "other.py": "def wait():\n    return 0\n",
    "test_till.py": "import till\n\ndef test_pay():\n    assert till.pay([1, 2]) == 3\n",
    "test_other.py": (
        "import other\nimport pytest\n\n@pytest.mark.parametrize('one', range(3))\n"
        "def test_wait(one):\n    assert other.wait() == 0\n"
    ),
}


@pytest.mark.thorough
def test_a_long_suite_ends_when_tests_that_lead_to_the_change_fail(tmp_path: Path) -> None:
    work = Checkout(tmp_path, REACHED, SealOptions(timeout=300, long=0))
    found = work.check({"shop.py": SHOP.replace("sum(prices)", "sum(prices) + 1")})
    assert (found.state, found.broken) == (CheckState.FAILED, ("test_till.py::test_pay",)), found
    assert found.reason.endswith("Only tests that lead to the change were run.")
    found = work.check({"shop.py": SHOP.replace("sum(prices)", "sum(prices) + 0")})
    assert (found.state, found.passed, found.noticed) == (CheckState.PASSED, 4, True), found


@pytest.mark.thorough
def test_what_leads_to_the_change_may_fail_if_it_may(tmp_path: Path) -> None:
    options = SealOptions(timeout=300, long=0, known_failures=("test_till.py::*",))
    found = Checkout(tmp_path, REACHED, options).check({"shop.py": SHOP.replace("sum(prices)", "0")})
    assert found.state is CheckState.PASSED, found
    assert found.passed == 3, "all were run"


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("go") is None, reason="go is not installed")
def test_go_runs_the_packages_of_changed_tests(tmp_path: Path) -> None:
    def test(package: str, name: str, call: str, want: int) -> str:
        return (
            f'package {package}\n\nimport "testing"\n\nfunc {name}(t *testing.T) {{\n'
            f'\tif {call} != {want} {{\n\t\tt.Fatal("wrong")\n\t}}\n}}\n'
        )

    one, two = "func One() int { return 1 }\n", "\nfunc Two() int { return 2 }\n"
    base: Files = {
        "go.mod": "module example.com/shop\n\ngo 1.19\n",
        "a/a.go": f"package a\n\n{one}",
        "a/a_test.go": test("a", "TestOne", "One()", 1),
        "b/b.go": 'package b\n\nimport "example.com/shop/a"\n\nfunc Three() int { return a.One() + 2 }\n',
        "b/b_test.go": test("b", "TestThree", "Three()", 3),
        "c/c.go": "package c\n\nfunc Four() int { return 4 }\n",
        "c/c_test.go": test("c", "TestFour", "Four()", 4),
        "c/d_test.go": test("c", "TestFive", "Four() + 1", 5),
    }
    for name in ("short", "long"):
        (tmp_path / name).mkdir()
    work = Checkout(tmp_path / "long", base, SealOptions(timeout=300, long=0))
    go = ("go", "test", "-vet=off", "./...")
    right: Files = {"a/a.go": f"package a\n\n{one}{two}", "a/two_test.go": test("a", "TestTwo", "Two()", 2)}
    short = Checkout(tmp_path / "short", base, SealOptions(timeout=300, long=1e9)).check(right, go)
    long = work.check(right, go)
    for name in ("state", "proved", "noticed", "passed", "broken", "weaknesses", "cap"):
        assert getattr(long, name) == getattr(short, name), name
    assert (long.state, long.proved) == (CheckState.PASSED, ("a/two_test.go::TestTwo",))
    found = work.check({"a/a.go": "package a\n\nfunc One() int { return 7 }\n"}, go)
    assert found.broken == ("a/a_test.go::TestOne", "b/b_test.go::TestThree")
    assert found.reason.endswith("Only tests that lead to the change were run.")


@pytest.mark.thorough
def test_what_began_early_is_ended_when_the_work_fails(tmp_path: Path) -> None:
    wrong = {"shop.py": SHOP.replace("sum(prices)", "sum(prices) + 1"), "test_mean.py": TEST_MEAN}
    slow = {"test_slow.py": "import shop, time\n\ndef test_slow():\n    shop.total([]) or time.sleep(1)\n"}
    work = Checkout(tmp_path, {**BASE, **slow}, SealOptions(timeout=300))
    found = work.check(wrong)
    assert found.state is CheckState.FAILED
    assert [one for one in tmp_path.rglob("runs/*-s*") if one.is_dir()] == [], "nothing of it is left"


@pytest.mark.thorough
@pytest.mark.parametrize("program", ["node", "cargo"])
def test_a_runner_that_cannot_be_told_does_not_find_the_other_tests(tmp_path: Path, program: str) -> None:
    if shutil.which(program) is None or (program == "cargo" and missing_cargo()):
        pytest.skip(f"{program} cannot be used here")
    calls: list[object] = []

    class Count(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            calls.append(self)

    with socketserver.TCPServer(("127.0.0.1", 0), Count) as server:
        threading.Thread(target=server.serve_forever).start()
        base, change, argv = _by_file(program, server.server_address[1])
        work = Checkout(tmp_path, base, SealOptions(timeout=300, long=0, network=True))
        found = work.check(change, argv, measured=True)
        server.shutdown()
    assert (found.state, len(found.proved), found.passed) == (CheckState.PASSED, 1, 2), found
    assert found.mutants is not None, found
    assert not found.blunt, found
    assert len(calls) == 2, "the old test ran on the base, and once with the new code"


def _by_file(program: str, port: int) -> tuple[Files, Files, tuple[str, ...]]:
    """Return a project with a test that says that it runs, a change with a test of its own, and the check."""
    if program == "node":
        test = """const test = require("node:test");
const assert = require("node:assert");
const till = require("./till.js");

"""
        old = f"""{test}test("old", async () => {{
  await new Promise((end) => require("net").connect({port}, "127.0.0.1").on("close", end).resume());
  assert.strictEqual(till.one(), 1);
}});
"""
        new = f'{test}test("new", () => assert.strictEqual(till.two(2), 4));\n'
        code = "exports.one = () => 1;\n"
        more = "exports.two = (a) => {\n  return a + 2;\n};\n"
        base: Files = {"package.json": '{"name": "till"}\n', "till.js": code, "old.test.js": old}
        return base, {"till.js": code + more, "two.test.js": new}, ("node", "--test")
    old = f"""#[test]
fn old() {{
    std::net::TcpStream::connect("127.0.0.1:{port}").unwrap();
    assert_eq!(till::one(), 1);
}}
"""
    code = "pub fn one() -> i32 {\n    1\n}\n"
    base = {
        "Cargo.toml": '[package]\nname = "till"\nversion = "0.1.0"\nedition = "2021"\n',
        ".gitignore": "target\nCargo.lock\n",
        "src/lib.rs": code,
        "tests/old.rs": old,
    }
    more = "\npub fn two(a: i32) -> i32 {\n    a + 2\n}\n"
    new = "#[test]\nfn new() {\n    assert_eq!(till::two(2), 4);\n}\n"
    return base, {"src/lib.rs": code + more, "tests/new.rs": new}, ("cargo", "test", "--offline", "--quiet")
