"""A small shop with one test, and a function that a task adds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proof.projects import Checkout, Files

HEADER = "import unittest\n\nimport shop\n\n\nclass ShopTest(unittest.TestCase):\n"
TOTAL = "    def test_total(self):\n        self.assertEqual(shop.total([1, 2]), 3)\n"
BASE: Files = {
    "shop.py": "def total(prices):\n    return sum(prices)\n",
    "tests/__init__.py": "",
    "tests/test_shop.py": HEADER + TOTAL,
}
TEST = "tests.test_shop.ShopTest.test_total"
MEAN = "\n\ndef mean(prices):\n    return total(prices) / len(prices)\n"
WITH_MEAN = f"{BASE['shop.py']}{MEAN}"
MEAN_TESTS = """import unittest

from shop import mean


class MeanTest(unittest.TestCase):
    def test_mean(self):
        self.assertEqual(mean([1, 3]), 2)

    def test_trivial(self):
        self.assertTrue(True)
"""


@pytest.fixture
def shop(tmp_path: Path) -> Checkout:
    """A small project with one test."""
    return Checkout(tmp_path, BASE)
