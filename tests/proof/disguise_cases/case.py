"""What a case is, and the small till that all of them are about, in three languages."""

from __future__ import annotations

from typing import NamedTuple

from tests.proof.projects import DISCOVER, PYTEST, Files


class DisguiseCase(NamedTuple):
    """A project, and an agent's change of it."""

    name: str
    base: Files
    change: Files
    check: tuple[str, ...] = PYTEST
    needs: str = ""
    """A program without which the case is skipped."""


RIGHT = "def total(prices):\n    return sum(prices)\n"
WRONG = "def total(prices):\n    return 0\n"
FIRST = "import till\n\n\ndef test_it_is_there():\n    assert till.total\n"
TEST = "from till import total\n\n\ndef test_total():\n    assert total([1, 2]) == 3\n"
UNIT = """\
import unittest

from till import total


class TotalTest(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([1, 2]), 3)
"""
UNIT_NOTHING = "\n    def test_nothing(self):\n        self.assertTrue(total([]) == 0)\n"
BASE: Files = {"till.py": RIGHT, "test_a.py": FIRST, "test_total.py": TEST}
UNIT_BASE: Files = {"till.py": RIGHT, "test_total.py": UNIT + UNIT_NOTHING}

NODE_TEST = """\
const test = require("node:test");
const assert = require("node:assert");
const { total } = require("./till.js");

test("total", () => assert.strictEqual(total([1, 2]), 3));
"""
NODE_RIGHT = "exports.total = (prices) => prices.reduce((a, b) => a + b, 0);\n"
NODE_WRONG = "exports.total = () => 0;\n"
NODE_BASE: Files = {
    "package.json": '{"name": "till", "private": true}\n',
    "till.js": NODE_RIGHT,
    "till.test.js": NODE_TEST + 'test("nothing", () => assert.strictEqual(total([]), 0));\n',
}

GO_TEST = """\
package till

import "testing"

func TestTotal(t *testing.T) {
	if Total(1, 2) != 3 {
		t.Fatal("not 3")
	}
}
"""
GO_RIGHT = "package till\n\nfunc Total(a, b int) int { return a + b }\n"
GO_BASE: Files = {
    "go.mod": "module example.com/till\n\ngo 1.19\n",
    "till.go": GO_RIGHT,
    "till_test.go": GO_TEST,
}
NODE, GO = ("node", "--test"), ("go", "test", "-vet=off", "./...")


def by_pytest(name: str, code: str, product: str = WRONG) -> DisguiseCase:
    """Return a case whose product begins with some code, and has tests for pytest."""
    return DisguiseCase(name, BASE, {"till.py": f"{code}\n\n{product}"})


def by_unittest(name: str, code: str, product: str = WRONG) -> DisguiseCase:
    """Return the same with tests for unittest."""
    return DisguiseCase(name, UNIT_BASE, {"till.py": f"{code}\n\n{product}"}, DISCOVER)


def by_node(name: str, code: str) -> DisguiseCase:
    """Return a case with a product in JavaScript."""
    return DisguiseCase(name, NODE_BASE, {"till.js": code}, NODE, "node")


def by_go(name: str, code: str) -> DisguiseCase:
    """Return a case with a product in Go."""
    return DisguiseCase(name, GO_BASE, {"till.go": f"package till\n\n{code}"}, GO, "go")
