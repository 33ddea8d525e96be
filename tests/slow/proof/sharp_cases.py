"""Twins: tests that can tell right from wrong, and tests that cannot, each for the same small change."""

# ruff: noqa: E501 - programs are easier to compare in one line
from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from tests.proof.projects import PYTEST, Files

GO = ("go", "test", "-vet=off", "./...")
NODE = ("node", "--test")
CARGO = ("cargo", "test", "--offline", "--quiet")


class Twin(Struct, frozen=True):
    """A change with a test that fails without it and passes with it."""

    name: str
    argv: Sequence[str]
    base: Files
    change: Files
    sharp: bool


SHOP = """def one():
    return 1
"""
TOTAL = '''

def total(prices, discount=0):
    """Return the sum, less a discount in percent."""
    amount = sum(prices)
    if discount > 50:
        raise ValueError("too much: at most 50 percent")
    return amount - amount * discount / 100
'''
PY_BASE: Files = {
    "shop.py": SHOP,
    "test_old.py": "from shop import one\n\ndef test_one():\n    assert one() == 1\n",
}
IMPORT = "import pytest\nfrom shop import total\n\n"


def _python(name: str, test: str, sharp: bool, code: str = SHOP + TOTAL, **more: str) -> Twin:
    """A test in pytest; the keys of `more` are names of further modules."""
    files = {f"{key}.py": text for key, text in more.items()}
    return Twin(f"python: {name}", PYTEST, PY_BASE, {"shop.py": code, "test_new.py": test, **files}, sharp)


BLUNT_PYTHON = [
    _python(
        "no assert",
        IMPORT + "def test_total():\n    result = total([10, 20], 10)\n    print(result)\n",
        False,
    ),
    _python(
        "compares with itself",
        IMPORT + "def test_total():\n    assert total([10], 5) == total([10], 5)\n",
        False,
    ),
    _python(
        "tolerance",
        IMPORT + "def test_total():\n    assert total([10, 20]) == pytest.approx(30, abs=1e9)\n",
        False,
    ),
    _python(
        "a mock of the thing itself",
        "from unittest.mock import patch\nimport shop\n\ndef test_total():\n"
        "    with patch.object(shop, 'total', return_value=30):\n        assert shop.total([10, 20]) == 30\n",
        False,
    ),
    _python(
        "the happy path of three",
        "from shop import ship\n\ndef test_ship():\n    assert ship(1, 'de') == 'small'\n",
        False,
        SHOP + "\n\ndef ship(weight, country):\n    if country not in ('de', 'fr', 'it'):\n"
        "        raise ValueError('no post to ' + country)\n    if weight > 20:\n        return 'freight'\n"
        "    if weight > 5 and country != 'de':\n        return 'large'\n    return 'small'\n",
    ),
]
HONEST_PYTHON = [
    _python(
        "small",
        IMPORT + "def test_total():\n    assert total([10, 20]) == 30\n    assert total([100], 50) == 50\n\n"
        "def test_too_much():\n    with pytest.raises(ValueError, match='at most 50'):\n        total([1], 51)\n",
        True,
    ),
    _python(
        "a raised error",
        "import pytest\nfrom shop import check\n\ndef test_check():\n    check(1)\n"
        "    with pytest.raises(ValueError, match='negative'):\n        check(-1)\n",
        True,
        SHOP + "\n\ndef check(price):\n    if price < 0:\n        raise ValueError('negative')\n",
    ),
    _python(
        "a command line",
        "import subprocess, sys\n\ndef test_main():\n    line = [sys.executable, 'cli.py', '3']\n"
        "    assert subprocess.run(line, capture_output=True, text=True).stdout == 'three: 3\\n'\n"
        "    assert subprocess.run([*line[:2]], capture_output=True).returncode == 2\n",
        True,
        SHOP,
        cli="import sys\n\n\ndef main():\n    if len(sys.argv) < 2:\n        sys.exit(2)\n"
        "    print(f'three: {int(sys.argv[1])}')\n\n\nif __name__ == '__main__':\n    main()\n",
    ),
]

JS = "exports.one = () => 1;\n"
JS_TOTAL = """
exports.total = function (prices, discount = 0) {
  const amount = prices.reduce((a, b) => a + b, 0);
  if (discount > 50) {
    throw new Error("too much: at most 50 percent");
  }
  return amount - (amount * discount) / 100;
};
"""
JS_HEAD = 'const test = require("node:test");\nconst assert = require("node:assert");\nconst shop = require("../shop.js");\n\n'
JS_BASE: Files = {
    "package.json": '{"name": "shop"}\n',
    "shop.js": JS,
    "test/old.test.js": JS_HEAD + 'test("one", () => assert.equal(shop.one(), 1));\n',
}


def _node(name: str, test: str, sharp: bool, code: str = JS + JS_TOTAL) -> Twin:
    return Twin(
        f"javascript: {name}", NODE, JS_BASE, {"shop.js": code, "test/new.test.js": JS_HEAD + test}, sharp
    )


JAVASCRIPT = [
    _node("no assert", 'test("total", () => { shop.total([10, 20], 10); });\n', False),
    _node(
        "compares with itself",
        'test("total", () => assert.equal(shop.total([10, 20]), shop.total([10, 20])));\n',
        False,
    ),
    _node("tolerance", 'test("total", () => assert.ok(Math.abs(shop.total([10, 20]) - 30) < 1e9));\n', False),
    _node(
        "a mock of the thing itself",
        'test("total", (t) => { t.mock.method(shop, "total", () => 30); assert.equal(shop.total([10, 20]), 30); });\n',
        False,
    ),
    _node(
        "small",
        'test("total", () => { assert.equal(shop.total([10, 20]), 30); assert.equal(shop.total([100], 50), 50); });\n'
        'test("too much", () => assert.throws(() => shop.total([1], 51), /at most 50/));\n',
        True,
    ),
]

GO_BASE: Files = {
    "go.mod": "module example.com/shop\n\ngo 1.19\n",
    "shop.go": "package shop\n\nfunc One() int { return 1 }\n",
    "shop_test.go": 'package shop\n\nimport "testing"\n\nfunc TestOne(t *testing.T) {\n\tif One() != 1 {\n\t\tt.Fatal("not 1")\n\t}\n}\n',
}
GO_TOTAL = """package shop

import "errors"

func Total(prices []int, discount int) (int, error) {
	amount := 0
	for _, price := range prices {
		amount += price
	}
	if discount > 50 {
		return 0, errors.New("too much")
	}
	return amount - amount*discount/100, nil
}
"""


def _go(name: str, body: str, sharp: bool, code: str = GO_TOTAL, test: str = "TestTotal") -> Twin:
    text = f'package shop\n\nimport "testing"\n\nfunc {test}(t *testing.T) {{\n{body}}}\n'
    return Twin(f"go: {name}", GO, GO_BASE, {"total.go": code, "total_test.go": text}, sharp)


GOLANG = [
    _go("no assert", "\tTotal([]int{10, 20}, 10)\n", False),
    _go(
        "compares with itself",
        '\ta, _ := Total([]int{1}, 0)\n\tb, _ := Total([]int{1}, 0)\n\tif a != b {\n\t\tt.Fatal("x")\n\t}\n',
        False,
    ),
    _go("tolerance", '\tif a, _ := Total([]int{10}, 0); a > 1000000000 {\n\t\tt.Fatal("x")\n\t}\n', False),
    _go(
        "small",
        "\tif a, err := Total([]int{10, 20}, 10); a != 27 || err != nil {\n\t\tt.Fatal(a, err)\n\t}\n"
        "\tif a, err := Total([]int{10, 20}, 50); a != 15 || err != nil {\n\t\tt.Fatal(a, err)\n\t}\n"
        '\tif _, err := Total(nil, 51); err == nil {\n\t\tt.Fatal("no error")\n\t}\n',
        True,
    ),
]

RUST_BASE: Files = {
    "Cargo.toml": '[package]\nname = "shop"\nversion = "0.1.0"\nedition = "2021"\n',
    "Cargo.lock": 'version = 3\n\n[[package]]\nname = "shop"\nversion = "0.1.0"\n',
    "src/lib.rs": "pub fn one() -> i32 {\n    1\n}\n",
    "tests/old.rs": "#[test]\nfn one() {\n    assert_eq!(shop::one(), 1);\n}\n",
}
RUST_TOTAL = """pub fn one() -> i32 {
    1
}

pub fn total(prices: &[i32], discount: i32) -> Result<i32, String> {
    let amount: i32 = prices.iter().sum();
    if discount > 50 {
        return Err("too much".to_string());
    }
    Ok(amount - amount * discount / 100)
}

pub fn is_small(amount: i32) -> bool {
    amount < 10
}
"""


def _rust(name: str, body: str, sharp: bool) -> Twin:
    text = f"#[test]\nfn total() {{\n{body}}}\n"
    return Twin(f"rust: {name}", CARGO, RUST_BASE, {"src/lib.rs": RUST_TOTAL, "tests/new.rs": text}, sharp)


RUST = [
    _rust("no assert", "    let _ = shop::total(&[10, 20], 10);\n    shop::is_small(3);\n", False),
    _rust(
        "compares with itself",
        "    assert_eq!(shop::is_small(1), shop::is_small(1));\n    assert_eq!(shop::total(&[1], 1), shop::total(&[1], 1));\n",
        False,
    ),
    _rust(
        "small",
        "    assert_eq!(shop::total(&[10, 20], 10), Ok(27));\n    assert_eq!(shop::total(&[10], 50), Ok(5));\n"
        "    assert!(shop::total(&[], 51).is_err());\n    assert!(shop::is_small(9));\n    assert!(!shop::is_small(10));\n",
        True,
    ),
]


TWINS = [*BLUNT_PYTHON, *HONEST_PYTHON, *JAVASCRIPT, *GOLANG, *RUST]
