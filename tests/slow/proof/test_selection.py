"""A long suite is run whole only once, and still gets the verdicts of a short one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from segue.domain.proof import CheckResult, CheckState
from segue.proof.execute import SealOptions
from tests.proof.projects import Checkout, Files, needs_sandbox

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
    "nothing notices": ({"shop.py": MEAN, "test_mean.py": "def test_mean():\n    pass\n"}, CheckState.PASSED),
    "an old test breaks": (
        {"shop.py": MEAN.replace("sum(prices)", "sum(prices) + 1"), "test_mean.py": TEST_MEAN},
        CheckState.FAILED,
    ),
    "the new test fails": (
        {"shop.py": MEAN.replace("total(prices) /", "1 /"), "test_mean.py": TEST_MEAN},
        CheckState.FAILED,
    ),
    "what tests share was changed": (
        {"shop.py": MEAN, "test_mean.py": TEST_MEAN, "helpers.py": "PRICES = [3]\n"},
        CheckState.PASSED,
    ),
}


def judge(folder: Path, change: Files, long: float) -> CheckResult:
    folder.mkdir()
    return Checkout(folder, BASE, SealOptions(timeout=300, long=long)).check(change)


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


def test_a_new_test_does_not_mend_the_old_ones(tmp_path: Path) -> None:
    change: Files = {
        "shop.py": "def total(prices):\n    return 0\n",
        "test_a.py": "import shop\n\nshop.total = sum\n\ndef test_a():\n    assert shop.total([1]) == 1\n",
    }
    found = judge(tmp_path / "long", change, 0)
    assert (found.state, found.broken) == (CheckState.FAILED, ("test_shop.py::test_total",))


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


def test_a_long_suite_ends_when_tests_that_lead_to_the_change_fail(tmp_path: Path) -> None:
    work = Checkout(tmp_path, REACHED, SealOptions(timeout=300, long=0))
    found = work.check({"shop.py": SHOP.replace("sum(prices)", "sum(prices) + 1")})
    assert (found.state, found.broken) == (CheckState.FAILED, ("test_till.py::test_pay",)), found
    assert found.reason.endswith("Only tests that lead to the change were run.")
    found = work.check({"shop.py": SHOP.replace("sum(prices)", "sum(prices) + 0")})
    assert (found.state, found.passed, found.noticed) == (CheckState.PASSED, 4, True), found


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


def test_what_began_early_is_ended_when_the_work_fails(tmp_path: Path) -> None:
    wrong = {"shop.py": SHOP.replace("sum(prices)", "sum(prices) + 1"), "test_mean.py": TEST_MEAN}
    slow = {"test_slow.py": "import shop, time\n\ndef test_slow():\n    shop.total([]) or time.sleep(1)\n"}
    work = Checkout(tmp_path, {**BASE, **slow}, SealOptions(timeout=300))
    found = work.check(wrong)
    assert found.state is CheckState.FAILED
    assert [one for one in tmp_path.rglob("runs/*-s*") if one.is_dir()] == [], "nothing of it is left"
