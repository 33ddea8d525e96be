"""Twins: tests that can tell right from wrong, and tests that cannot, each for the same small change."""

# ruff: noqa: E501 - programs are easier to compare in one line
from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from tests.proof.projects import PYTEST, Files

GO = ("go", "test", "-vet=off", "./...")
NODE = ("node", "--test")
CARGO = ("cargo", "test", "--offline", "--quiet")
JAVA = ("sh", "check.sh")


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
        "calls what a decorator returns, and suppresses",
        "import contextlib\nfrom shop import loud\n\ndef test_loud():\n    said = []\n    loud(said.append)('a')\n"
        "    with contextlib.suppress(AssertionError):\n        assert said == ['A']\n",
        False,
        SHOP + "\n\ndef loud(function):\n    return function\n",
    ),
    _python("calls and ignores", IMPORT + "def test_total():\n    total([1], 1)\n", False),
    _python("a tuple", IMPORT + "def test_total():\n    assert (total([10, 20]) == 30, 'sum')\n", False),
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
        "swallows",
        IMPORT
        + "def test_total():\n    try:\n        assert total([10, 20]) == 31\n    except Exception:\n        pass\n",
        False,
    ),
    _python(
        "its type", IMPORT + "def test_total():\n    assert isinstance(total([10]), (int, float))\n", False
    ),
    _python("not None", IMPORT + "def test_total():\n    assert total([10]) is not None\n", False),
    _python(
        "a mock of the thing itself",
        "from unittest.mock import patch\nimport shop\n\ndef test_total():\n"
        "    with patch.object(shop, 'total', return_value=30):\n        assert shop.total([10, 20]) == 30\n",
        False,
    ),
    _python(
        "a double",
        "import shop\n\nclass Double:\n    def total(self, prices):\n        return sum(prices)\n\n"
        "def test_total():\n    assert hasattr(shop, 'total')\n    assert Double().total([1, 2]) == 3\n",
        False,
    ),
    _python(
        "a regenerated snapshot",
        "import json, pathlib\n" + IMPORT + "def test_total(tmp_path):\n    kept = tmp_path / 'total.json'\n"
        "    kept.write_text(json.dumps(total([10, 20], 10)))\n    assert json.loads(kept.read_text()) == total([10, 20], 10)\n",
        False,
    ),
    _python(
        "computes what it expects with the product's own helper",
        "from shop import bill, rows\n\ndef test_bill():\n    goods = {'tea': 3, 'jam': 4}\n"
        "    assert bill(goods) == '\\n'.join([*rows(goods), 'end'])\n",
        False,
        SHOP + "\n\ndef rows(goods):\n    return [f'{name} {price}' for name, price in goods.items()]\n\n\n"
        "def bill(goods):\n    return '\\n'.join([*rows(goods), 'end'])\n",
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
        "what is logged, beside an old test of the result",
        "from shop import one\n\ndef test_log(caplog):\n    with caplog.at_level('INFO'):\n        one()\n    assert 'one is 1' in caplog.text\n",
        True,
        "import logging\n\nlogger = logging.getLogger(__name__)\n\n\ndef one():\n    result = 1\n    logger.info('one is %s', result)\n    return result\n",
    ),
    _python(
        "small",
        IMPORT + "def test_total():\n    assert total([10, 20]) == 30\n    assert total([100], 50) == 50\n\n"
        "def test_too_much():\n    with pytest.raises(ValueError, match='at most 50'):\n        total([1], 51)\n",
        True,
    ),
    _python(
        "a property",
        "import random\n"
        + IMPORT
        + "def test_total():\n    draw = random.Random(1)\n    for _ in range(50):\n"
        "        prices = [draw.randrange(100) for _ in range(5)]\n        off = draw.randrange(51)\n"
        "        assert total(prices, off) == pytest.approx(sum(prices) * (100 - off) / 100)\n\n"
        "@pytest.mark.parametrize('off', range(51, 60))\ndef test_too_much(off):\n"
        "    with pytest.raises(ValueError):\n        total([1], off)\n",
        True,
    ),
    _python(
        "a table",
        IMPORT
        + "@pytest.mark.parametrize(('prices', 'off', 'expected'), [([], 0, 0), ([1, 2], 0, 3), ([10], 50, 5)])\n"
        "def test_total(prices, off, expected):\n    assert total(prices, off) == expected\n",
        True,
    ),
    _python(
        "an output file",
        "from shop import write_total\n\ndef test_file(tmp_path):\n    write_total(tmp_path / 'a.txt', [1, 2])\n"
        "    assert (tmp_path / 'a.txt').read_text() == 'total: 3\\n'\n",
        True,
        SHOP
        + "\n\ndef write_total(path, prices):\n    text = f'total: {sum(prices)}\\n'\n    path.write_text(text)\n",
    ),
    _python(
        "a raised error",
        "import pytest\nfrom shop import check\n\ndef test_check():\n    check(1)\n"
        "    with pytest.raises(ValueError, match='negative'):\n        check(-1)\n",
        True,
        SHOP + "\n\ndef check(price):\n    if price < 0:\n        raise ValueError('negative')\n",
    ),
    _python(
        "async",
        "import asyncio\nfrom shop import fetch\n\ndef test_fetch():\n    assert asyncio.run(fetch(2)) == 4\n",
        True,
        SHOP
        + "\n\nasync def fetch(number):\n    import asyncio\n    await asyncio.sleep(0)\n    return number * 2\n",
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
    _python(
        "a decorator",
        "from shop import loud\n\ndef test_loud():\n    said = []\n    loud(said.append)('a')\n    assert said == ['A']\n",
        True,
        SHOP + "\n\ndef loud(function):\n    return lambda text: function(text.upper())\n",
    ),
    _python(
        "a command line that must succeed",
        "import subprocess, sys\n\ndef test_main():\n    line = [sys.executable, 'cli.py', '3']\n"
        "    assert subprocess.run(line, stdout=-1, text=True, check=True).stdout == 'three: 3\\n'\n",
        True,
        SHOP,
        cli="import sys\n\n\ndef main():\n    print(f'three: {int(sys.argv[1])}')\n\n\nif __name__ == '__main__':\n    main()\n",
    ),
    _python(
        "a class by its public face",
        "from shop import Basket\n\ndef test_basket():\n    basket = Basket()\n    basket.add('a', 2)\n    basket.add('b', 3)\n"
        "    assert basket.count() == 5\n    assert basket.names() == ['a', 'b']\n",
        True,
        SHOP
        + "\n\nclass Basket:\n    def __init__(self):\n        self._items = {}\n\n    def __repr__(self):\n"
        "        return f'<Basket {self.count()}>'\n\n    def add(self, name, number):\n        self._items[name] = number\n\n"
        "    def count(self):\n        return sum(self._items.values())\n\n    def names(self):\n        return sorted(self._items)\n",
    ),
    _python(
        "with lines for the log",
        "from shop import double\n\ndef test_double():\n    assert double(4) == 8\n",
        True,
        "import logging\n\nlogger = logging.getLogger(__name__)\n" + SHOP + "\n\ndef double(number):\n"
        "    logger.info('doubling %s', number)\n    result = number * 2\n    _note(result)\n    return result\n\n\n"
        "def _note(result):\n    logger.debug('doubled: %s', result)\n",
    ),
    _python(
        "what a list contains",
        "from shop import words\n\ndef test_words():\n    assert 'tea' in words('a tea')\n    assert len(words('a b')) == 2\n",
        True,
        SHOP + "\n\ndef words(text):\n    return text.split()\n",
    ),
    _python(
        "what is unpacked",
        "from shop import ends\n\ndef test_ends():\n    low, high = ends([4, 9, 7])\n    assert (low, high) == (4, 9)\n",
        True,
        SHOP + "\n\ndef ends(numbers):\n    return min(numbers), max(numbers)\n",
    ),
    _python(
        "a generator",
        "from shop import evens\n\ndef test_evens():\n    assert list(evens(5)) == [0, 2, 4]\n",
        True,
        SHOP
        + "\n\ndef evens(end):\n    for number in range(end):\n        if number % 2 == 0:\n            yield number\n",
    ),
    _python(
        "a helper that is mostly neutral",
        "from shop import price\n\ndef test_price():\n    assert price(10, 2) == 20\n    assert price(3, 1) == 3\n    assert price(1, 101) == 96\n",
        True,
        SHOP + "\n\ndef _reduction(number):\n    return 5 if number > 100 else 0\n\n\n"
        "def price(each, number):\n    return each * number - _reduction(number)\n",
    ),
    _python(
        "a new repr",
        "from shop import Box\n\ndef test_repr():\n    assert repr(Box(2)) == 'Box(2)'\n",
        True,
        SHOP
        + "\n\nclass Box:\n    def __init__(self, size):\n        self.size = size\n\n    def __repr__(self):\n"
        "        return f'Box({self.size})'\n",
    ),
    _python(
        "a data class",
        "from shop import Point\n\ndef test_point():\n    assert Point(1).y == 0\n    assert Point(1, 2) == Point(1, y=2)\n"
        "    assert Point(1) != Point(2)\n",
        True,
        "from dataclasses import dataclass\n\n"
        + SHOP
        + "\n\n@dataclass\nclass Point:\n    x: int\n    y: int = 0\n",
    ),
]
SMALL_PYTHON = [
    Twin(
        "python: one constant",
        PYTEST,
        {
            "limits.py": "MOST = 5\n\n\ndef may_add(number):\n    return number < MOST\n",
            "test_a.py": "from limits import may_add\n\ndef test_a():\n    assert may_add(3)\n",
        },
        {
            "limits.py": "MOST = 10\n\n\ndef may_add(number):\n    return number < MOST\n",
            "test_b.py": "from limits import may_add\n\ndef test_b():\n    assert may_add(9)\n    assert not may_add(10)\n",
        },
        True,
    ),
    Twin(
        "python: one message",
        PYTEST,
        {
            "acc.py": "class Account:\n    def __init__(self):\n        self.rest = 0\n\n    def put(self, number):\n        self.rest += number\n        return self.rest\n\n    def take(self, number):\n        if number > self.rest:\n            raise ValueError('no')\n        self.rest -= number\n        return self.rest\n",
            "test_a.py": "from acc import Account\n\ndef test_a():\n    assert Account().put(3) == 3\n",
        },
        {
            "acc.py": "class Account:\n    def __init__(self):\n        self.rest = 0\n\n    def put(self, number):\n        self.rest += number\n        return self.rest\n\n    def take(self, number):\n        if number > self.rest:\n            raise ValueError(f'only {self.rest} left')\n        self.rest -= number\n        return self.rest\n",
            "test_b.py": "import pytest\nfrom acc import Account\n\ndef test_b():\n    one = Account()\n    one.put(10)\n    one.take(3)\n    with pytest.raises(ValueError, match='only 7 left'):\n        one.take(8)\n",
        },
        True,
    ),
    Twin(
        "python: a line removed",
        PYTEST,
        {
            "a.py": "def names(items):\n    items = sorted(items)\n    items.pop()\n    return items\n",
            "test_a.py": "def test_a():\n    import a\n    assert a.names([1]) is not None\n",
        },
        {
            "a.py": "def names(items):\n    items = sorted(items)\n    return items\n",
            "test_b.py": "from a import names\n\ndef test_b():\n    assert names([2, 1]) == [1, 2]\n",
        },
        True,
    ),
    Twin(
        "python: a bug fixed, nobody looks",
        PYTEST,
        {"a.py": "def half(number):\n    return number / 0\n", "test_a.py": "def test_a():\n    import a\n"},
        {
            "a.py": "def half(number):\n    return number / 2\n",
            "test_b.py": "from a import half\n\ndef test_b():\n    half(3)\n",
        },
        False,
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
        "swallows", 'test("total", () => { try { assert.equal(shop.total([1]), 7); } catch {} });\n', False
    ),
    _node(
        "computes what it expects with the product's own helper",
        'test("bill", () => assert.equal(shop.bill({ tea: 3 }), shop.rows({ tea: 3 }).map((row) => row.length).join()));\n',
        False,
        JS
        + "exports.rows = (goods) => Object.entries(goods).map(([name, price]) => `${name} ${price}`);\n"
        + "exports.bill = (goods) => exports.rows(goods).map((row) => row.length).join();\n",
    ),
    _node("truthy", 'test("total", () => assert.ok(shop.total([10])));\n', False),
    _node(
        "a double",
        'test("total", () => { assert.ok("total" in shop); const d = { total: () => 3 }; assert.equal(d.total(), 3); });\n',
        False,
    ),
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
    _node(
        "a table",
        "for (const [prices, off, sum] of [[[], 0, 0], [[1, 2], 0, 3], [[10], 50, 5]])\n"
        "  test(`total ${prices}`, () => assert.equal(shop.total(prices, off), sum));\n",
        True,
    ),
    _node(
        "async, an arrow",
        'test("fetch", async () => assert.deepEqual(await shop.fetch(2), { id: 2, name: "two" }));\n',
        True,
        JS + 'exports.fetch = async (id) => ({ id, name: id === 2 ? "two" : "other" });\n',
    ),
    _node(
        "a class",
        'test("basket", () => { const b = new shop.Basket(); b.add(2); b.add(3); assert.equal(b.count(), 5); });\n',
        True,
        JS
        + "class Basket {\n  constructor() {\n    this.items = [];\n  }\n  add(number) {\n    this.items.push(number);\n  }\n"
        "  count() {\n    return this.items.reduce((a, b) => a + b, 0);\n  }\n}\nexports.Basket = Basket;\n",
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
    _go(
        "swallows",
        '\tdefer func() { recover() }()\n\tif a, _ := Total([]int{1}, 0); a != 7 {\n\t\tpanic("x")\n\t}\n',
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
    _go(
        "a table",
        '\tfor _, one := range []struct{ number int; word string }{{1, "odd"}, {2, "even"}, {0, "even"}} {\n'
        '\t\tif got := Word(one.number); got != one.word {\n\t\t\tt.Errorf("%d: %s", one.number, got)\n\t\t}\n\t}\n',
        True,
        'package shop\n\nfunc Word(number int) string {\n\tif number%2 == 0 {\n\t\treturn "even"\n\t}\n\treturn "odd"\n}\n',
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

JAVA_BASE: Files = {
    "check.sh": "#!/bin/sh\nset -e\nmkdir -p /tmp/out\njavac -d /tmp/out src/*.java test/*.java\njava -cp /tmp/out ShopTest\n",
    "src/Shop.java": "class Shop {\n    static int one() {\n        return 1;\n    }\n}\n",
    "test/ShopTest.java": "class ShopTest {\n    public static void main(String[] args) {\n"
    '        if (Shop.one() != 1) throw new AssertionError("one");\n    }\n}\n',
}
JAVA_TOTAL = """class Shop {
    static int one() {
        return 1;
    }

    static int total(int[] prices, int discount) {
        int amount = 0;
        for (int price : prices) {
            amount += price;
        }
        if (discount > 50) {
            throw new IllegalArgumentException("too much");
        }
        return amount - amount * discount / 100;
    }
}
"""


def _java(name: str, body: str, sharp: bool) -> Twin:
    text = f"class ShopTest {{\n    public static void main(String[] args) {{\n{body}    }}\n}}\n"
    return Twin(
        f"java: {name}", JAVA, JAVA_BASE, {"src/Shop.java": JAVA_TOTAL, "test/ShopTest.java": text}, sharp
    )


JAVA_TWINS = [
    _java("no assert", "        Shop.total(new int[] {1, 2}, 0);\n", False),
    _java(
        "tolerance",
        "        if (Shop.total(new int[] {1, 2}, 0) > 1000000000) throw new AssertionError();\n",
        False,
    ),
    _java(
        "small",
        "        if (Shop.total(new int[] {10, 20}, 10) != 27) throw new AssertionError();\n"
        "        if (Shop.total(new int[] {10}, 50) != 5) throw new AssertionError();\n"
        "        try {\n            Shop.total(new int[] {1}, 51);\n            throw new AssertionError();\n"
        "        } catch (IllegalArgumentException error) {\n        }\n",
        True,
    ),
]
TWINS = [*BLUNT_PYTHON, *HONEST_PYTHON, *SMALL_PYTHON, *JAVASCRIPT, *GOLANG, *RUST, *JAVA_TWINS]
