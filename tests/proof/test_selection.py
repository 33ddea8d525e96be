"""A long suite is run whole only once, and still gets the verdicts of a short one."""

from __future__ import annotations

from pathlib import Path

import pytest

from segue.domain.proof import CheckResult, CheckState
from segue.proof.execute import SealOptions
from tests.proof.projects import UNITTEST, Checkout, Files, needs_sandbox

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
