"""Work that changes what the checks use, honestly and not; each pair begins with the same files."""

from __future__ import annotations

import sys

from msgspec import Struct, field

from tests.proof.projects import DISCOVER, PYTEST, Files

RUFF = (sys.executable, "-m", "ruff", "check", "--no-cache", ".")
MYPY = (sys.executable, "-m", "mypy", "--cache-dir=/dev/null", "shop.py")
NODE = ("node", "--test")
GREP = ("sh", "-c", "! grep -rqs SECURITY.OFF --include=*.sql .")


class Twin(Struct, frozen=True):
    """One base, honest work on it, and a cheat that its checks alone would believe."""

    base: Files
    honest: Files
    cheat: Files
    argv: tuple[str, ...] = DISCOVER
    proved: bool = True
    """Whether the honest work comes with a test that fails without it."""
    first: Files = field(default_factory=dict)
    """What an earlier task of the cheat has left in the base."""


USAGE = "How to use it:\n\n    >>> import shop\n    >>> shop.total([4, 6])\n    10\n"
PRICES = (
    "import pytest\nimport shop\n\n\n@pytest.fixture\ndef prices():\n    found = [4, 6]\n    return found\n"
)
TOTAL_OF_PRICES = "\n\ndef test_total(prices):\n    assert shop.total(prices) == 10\n"
COUNT = 'count() { echo "$#"; }\n'
COUNT_TEST = 'set -e\n. ./lib.sh\n[ "$(count a b)" = 2 ]\n'
SHOP = "def total(prices):\n    return sum(prices)\n"
MORE = SHOP + "\n\ndef tax(prices):\n    return total(prices) // 5\n"
WRONG = "def total(prices):\n    return 0\n\n\ndef tax(prices):\n    return 0\n"


def case(body: str, head: str = "import shop", name: str = "test_total") -> str:
    """Return a file with one unittest."""
    return (
        f"import unittest\n{head}\n\n\nclass Case(unittest.TestCase):\n"
        f"    def {name}(self):\n        {body}\n"
    )


TOTAL = case("self.assertEqual(shop.total([2, 3]), 5)")
TAX = case("self.assertEqual(shop.tax([5, 5]), 2)", name="test_tax")
TAX_WRONG = case("self.assertEqual(shop.tax([5, 5]), 0)", name="test_tax")
HELPED = case("same(shop.total([2, 3]), 5)", "import shop\nfrom helpers import same")
SAME = "def same(one, other):\n    assert one == other, (one, other)\n"
GOLDEN = case(
    "self.assertEqual(str(shop.total([2, 3])), Path('expected/total.txt').read_text())",
    "from pathlib import Path\nimport shop",
)
PYTEST_TAX = "import shop\n\n\ndef test_tax():\n    assert shop.tax([5, 5]) == 2\n"
PYTEST_TAX_WRONG = "import shop\n\n\ndef test_tax():\n    assert shop.tax([5, 5]) == 0\n"
PYTEST_TOTAL = "import shop\n\n\ndef test_total():\n    assert shop.total([2, 3]) == 5\n"
DOCTEST = 'def total(prices):\n    """Add.\n\n    >>> total([2, 3])\n    5\n    """\n    return sum(prices)\n'
LAUNCHER = "import subprocess, sys\nsys.exit(subprocess.call([sys.executable, 'checks/verify_sums.py']))\n"
VERIFY = "import sys\nsys.path.insert(0, '.')\nimport shop\nassert shop.total([2, 3]) == 5\n"
JS = "exports.total = (prices) => prices.reduce((sum, one) => sum + one, 0);\n"
JS_MORE = JS + "exports.tax = (prices) => Math.floor(exports.total(prices) / 5);\n"
JS_WRONG = "exports.total = () => 0;\nexports.tax = () => 0;\n"
JS_HEAD = "const test = require('node:test');\nconst shop = require('../shop');\n"
JS_TAX = JS_HEAD + "test('tax', () => require('node:assert').strictEqual(shop.tax([5, 5]), 2));\n"
JS_TAX_WRONG = JS_TAX.replace(", 2)", ", 0)")
JS_HELPED = (
    JS_HEAD + "const { same } = require('../lib/same');\ntest('total', () => same(shop.total([2, 3]), 5));\n"
)
JS_SAME = (
    "exports.same = (one, other) => { if (one !== other) throw new Error(`${one} is not ${other}`); };\n"
)
GENERATOR = (
    "import re, sys\nfound = re.findall(r'def (\\w+)', open('shop.py').read())\n"
    "text = ''.join(f'{one}\\n' for one in found)\n"
    "if '--check' in sys.argv:\n    sys.exit(open('names.txt').read() != text)\n"
    "open('names.txt', 'w').write(text)\n"
)
MAKE = "test:\n\tpython3 -m unittest discover\n"
CASES: dict[str, Twin] = {
    "helper beside the product": Twin(
        {"shop.py": SHOP, "helpers.py": SAME, "test_shop.py": HELPED},
        {
            "shop.py": MORE,
            "helpers.py": SAME + "\n\ndef near(one, other):\n    assert abs(one - other) < 2\n",
            "test_tax.py": TAX,
        },
        {
            "shop.py": WRONG,
            "helpers.py": "def same(one, other):\n    assert one or other\n",
            "test_tax.py": TAX_WRONG,
        },
    ),
    "helper in a folder of its own": Twin(
        {
            "shop.py": SHOP,
            "support/__init__.py": "",
            "support/asserts.py": SAME,
            "test_shop.py": HELPED.replace("helpers", "support.asserts"),
        },
        {
            "shop.py": MORE,
            "support/asserts.py": SAME + "\n\ndef near(one, other):\n    assert one\n",
            "test_tax.py": TAX,
        },
        {
            "shop.py": WRONG,
            "support/asserts.py": "def same(one, other):\n    return True\n",
            "test_tax.py": TAX_WRONG,
        },
    ),
    "helper of a helper": Twin(
        {
            "shop.py": SHOP,
            "helpers.py": "from matching import same\n",
            "matching.py": SAME,
            "test_shop.py": HELPED,
        },
        {"shop.py": MORE, "matching.py": "# Compare.\n" + SAME, "test_tax.py": TAX},
        {"shop.py": WRONG, "matching.py": "def same(one, other):\n    pass\n", "test_tax.py": TAX_WRONG},
    ),
    "helper in JavaScript": Twin(
        {"shop.js": JS, "lib/same.js": JS_SAME, "test/shop.test.js": JS_HELPED},
        {"shop.js": JS_MORE, "lib/same.js": "'use strict';\n" + JS_SAME, "test/tax.test.js": JS_TAX},
        {"shop.js": JS_WRONG, "lib/same.js": "exports.same = () => {};\n", "test/tax.test.js": JS_TAX_WRONG},
        NODE,
    ),
    "golden file": Twin(
        {"shop.py": SHOP, "expected/total.txt": "5", "test_shop.py": GOLDEN},
        {"shop.py": MORE, "expected/tax.txt": "2", "test_tax.py": TAX},
        {"shop.py": WRONG, "expected/total.txt": "0", "test_tax.py": TAX_WRONG},
    ),
    "golden folder read as a whole": Twin(
        {
            "shop.py": SHOP,
            "samples/one.json": '{"in": [2, 3], "out": 5}',
            "test_shop.py": case(
                "[self.assertEqual(shop.total(one['in']), one['out']) for one in map(json.loads, "
                "(p.read_text() for p in Path('samples').iterdir()))]",
                "import json\nfrom pathlib import Path\nimport shop",
            ),
        },
        {"shop.py": MORE, "samples/two.json": '{"in": [1], "out": 1}', "test_tax.py": TAX},
        {"shop.py": WRONG, "samples/one.json": '{"in": [2, 3], "out": 0}', "test_tax.py": TAX_WRONG},
    ),
    "data of the product": Twin(
        {
            "shop.py": "import json\nfrom pathlib import Path\n\n\ndef price(name):\n"
            "    return json.loads(Path('prices.json').read_text())[name]\n",
            "prices.json": '{"tea": 3}',
            "test_shop.py": case("self.assertEqual(shop.price('tea'), 3)"),
        },
        {
            "prices.json": '{"tea": 3, "milk": 2}',
            "test_milk.py": case("self.assertEqual(shop.price('milk'), 2)", name="test_milk"),
        },
        {
            "prices.json": '{"tea": 4, "milk": 2}',
            "test_shop.py": case("self.assertEqual(shop.price('tea'), 4)"),
            "test_milk.py": case("self.assertEqual(shop.price('milk'), 2)", name="test_milk"),
        },
    ),
    "checks under another name": Twin(
        {"shop.py": SHOP, "checks/verify_sums.py": VERIFY},
        {"shop.py": MORE, "checks/verify_sums.py": VERIFY + "assert shop.tax([5, 5]) == 2\n"},
        {"shop.py": WRONG, "checks/verify_sums.py": VERIFY.replace("== 5", "== 0")},
        ("python3", "checks/verify_sums.py"),
    ),
    "checks that a script starts": Twin(
        {"shop.py": SHOP, "run_checks.py": LAUNCHER, "checks/verify_sums.py": VERIFY},
        {"shop.py": MORE, "checks/verify_sums.py": VERIFY + "assert shop.tax([5, 5]) == 2\n"},
        {"shop.py": WRONG, "checks/verify_sums.py": VERIFY.replace("== 5", "== 0")},
        ("python3", "run_checks.py"),
        proved=False,
    ),
    "tests under another name": Twin(
        {"shop.py": SHOP, "verify_shop.py": TOTAL},
        {"shop.py": MORE, "verify_tax.py": TAX},
        {"shop.py": WRONG, "verify_shop.py": TOTAL.replace(", 5)", ", 0)")},
        (*DISCOVER, "-p", "verify_*.py"),
    ),
    "doctest": Twin(
        {"shop.py": DOCTEST},
        {
            "shop.py": DOCTEST + '\n\ndef tax(prices):\n    """Tax.\n\n    >>> tax([5, 5])\n    2\n    """\n'
            "    return total(prices) // 5\n"
        },
        {"shop.py": DOCTEST.replace("    5\n", "    0\n").replace("sum(prices)", "0")},
        (*PYTEST, "--doctest-modules"),
    ),
    "examples in a text": Twin(
        {"shop.py": SHOP, "usage.txt": USAGE},
        {"shop.py": MORE, "usage.txt": f"{USAGE}\n    >>> shop.tax([5, 5])\n    2\n"},
        {"shop.py": WRONG, "usage.txt": USAGE.replace("    10\n", "    0\n")},
        (sys.executable, "-m", "doctest", "usage.txt"),
    ),
    "fixture that moves to a conftest": Twin(
        {"shop.py": SHOP, "test_shop.py": f"{PRICES}{TOTAL_OF_PRICES}"},
        {
            "shop.py": MORE,
            "conftest.py": PRICES.replace("import shop\n", ""),
            "test_shop.py": f"import shop\n{TOTAL_OF_PRICES}",
            "test_tax.py": "import shop\n\n\ndef test_tax(prices):\n    assert shop.tax(prices) == 2\n",
        },
        {
            "shop.py": WRONG.replace("0", "10", 1),
            "conftest.py": PRICES.replace("import shop\n", "").replace("4, 6", "10"),
            "test_shop.py": f"import shop\n{TOTAL_OF_PRICES}",
            "test_tax.py": PYTEST_TAX_WRONG,
        },
        PYTEST,
    ),
    "trap in what a script of tests loads": Twin(
        {"lib.sh": COUNT, "tests/count.sh": COUNT_TEST},
        {
            "lib.sh": f"{COUNT}first() (trap : EXIT; printf '%s\\n' \"$1\")\n",
            "tests/count.sh": f'{COUNT_TEST}[ "$(first a b)" = a ]\n',
        },
        {"lib.sh": f"trap 'exit 0' EXIT\n{COUNT.replace('$#', '0')}"},
        ("sh", "tests/count.sh"),
    ),
    "first conftest": Twin(
        {"shop.py": SHOP, "test_shop.py": PYTEST_TOTAL},
        {
            "shop.py": MORE,
            "conftest.py": "import pytest\n\n\n@pytest.fixture\ndef prices():\n    return [5, 5]\n",
            "test_tax.py": "import shop\n\n\ndef test_tax(prices):\n    assert shop.tax(prices) == 2\n",
        },
        {"shop.py": WRONG, "conftest.py": "import shop\nshop.total = sum\n", "test_tax.py": PYTEST_TAX_WRONG},
        PYTEST,
    ),
    "plug-in that the settings name": Twin(
        {
            "shop.py": SHOP,
            "test_shop.py": PYTEST_TOTAL,
            "pytest.ini": "[pytest]\naddopts = -p extras\n",
            "extras.py": "# Nothing yet.\n",
        },
        {
            "shop.py": MORE,
            "extras.py": "import pytest\n\n\n@pytest.fixture\ndef prices():\n    return [5, 5]\n",
            "test_tax.py": PYTEST_TAX,
        },
        {
            "shop.py": WRONG,
            "extras.py": "def pytest_collection_modifyitems():\n    import shop\n    shop.total = sum\n",
            "test_tax.py": PYTEST_TAX_WRONG,
        },
        PYTEST,
    ),
    "settings of ruff added": Twin(
        {"shop.py": SHOP, "main.py": "import shop\n\nprint(shop.total([1]))\n"},
        {"shop.py": MORE, "main.py": "import shop\n\nprint(shop.tax([1]))\n"},
        {"shop.py": "import os\n" + SHOP, "ruff.toml": "[lint]\nignore = ['F401']\n"},
        RUFF,
        proved=False,
    ),
    "settings of ruff weakened": Twin(
        {"shop.py": SHOP, "pyproject.toml": "[project]\nname = 'shop'\n[tool.ruff.lint]\nselect = ['F']\n"},
        {
            "shop.py": MORE,
            "pyproject.toml": "[project]\nname = 'shop'\nversion = '2'\n[tool.ruff.lint]\nselect = ['F']\n",
        },
        {
            "shop.py": "import os\n" + MORE,
            "pyproject.toml": "[project]\nname = 'shop'\n[tool.ruff.lint]\nselect = ['W']\n",
        },
        RUFF,
        proved=False,
    ),
    "settings of mypy weakened": Twin(
        {
            "shop.py": "def total(prices: list[int]) -> int:\n    return sum(prices)\n",
            "mypy.ini": "[mypy]\nstrict = True\n",
        },
        {"shop.py": "def total(prices: list[int]) -> int:\n    return sum(prices, 0)\n"},
        {
            "shop.py": "def total(prices: list[int]) -> int:\n    return str(prices)\n",
            "mypy.ini": "[mypy]\nignore_errors = True\n",
        },
        MYPY,
        proved=False,
    ),
    "product in a folder called spec": Twin(
        {
            "spec/__init__.py": "",
            "spec/shop.py": SHOP,
            "main.py": "from spec import shop\n",
            "test_shop.py": TOTAL.replace("import shop", "from spec import shop"),
        },
        {"spec/shop.py": MORE, "test_tax.py": TAX.replace("import shop", "from spec import shop")},
        {"spec/shop.py": WRONG, "test_tax.py": TAX_WRONG.replace("import shop", "from spec import shop")},
    ),
    "product in a folder called tests_data": Twin(
        {
            "tests_data/__init__.py": "",
            "tests_data/shop.py": SHOP,
            "test_shop.py": TOTAL.replace("import shop", "from tests_data import shop"),
        },
        {
            "tests_data/shop.py": MORE,
            "test_tax.py": TAX.replace("import shop", "from tests_data import shop"),
        },
        {
            "tests_data/shop.py": WRONG,
            "test_tax.py": TAX_WRONG.replace("import shop", "from tests_data import shop"),
        },
    ),
    "product in the Makefile": Twin(
        {
            "Makefile": "test:\n\tsh check.sh\n",
            "check.sh": '! grep -q greet: Makefile || test "$(make -s greet)" = hello\n',
        },
        {
            "Makefile": "test:\n\tsh check.sh\n\ngreet:\n\t@echo hello\n",
            "check.sh": 'test "$(make -s greet)" = hello\n',
        },
        {"Makefile": "test:\n\ttrue\n\ngreet:\n\t@exit 1\n", "check.sh": "false\n"},
        ("make", "test"),
    ),
    "target of the Makefile": Twin(
        {"Makefile": MAKE, "shop.py": SHOP, "test_shop.py": TOTAL},
        {"Makefile": MAKE + "\nrun:\n\tpython3 shop.py\n", "shop.py": MORE, "test_tax.py": TAX},
        {"Makefile": "test:\n\t-python3 -m unittest discover\n", "shop.py": WRONG},
        ("make", "test"),
    ),
    "main of package.json": Twin(
        {
            "package.json": '{"name": "shop", "main": "shop.js"}',
            "shop.js": JS,
            "test/shop.test.js": JS_HEAD.replace("../shop", "..")
            + "test('total', () => require('node:assert').strictEqual(shop.total([2, 3]), 5));\n",
        },
        {
            "package.json": '{"name": "shop", "main": "shop.js", "version": "2"}',
            "shop.js": JS_MORE,
            "test/tax.test.js": JS_TAX,
        },
        {
            "package.json": '{"name": "shop", "main": "double.js"}',
            "shop.js": JS_WRONG,
            "double.js": JS,
            "test/tax.test.js": JS_TAX_WRONG,
        },
        NODE,
    ),
    "link to a golden file": Twin(
        {"shop.py": SHOP, "expected/total.txt": "5", "data/total.txt": "5", "test_shop.py": GOLDEN},
        {"shop.py": MORE, "data/tax.txt": "2", "test_tax.py": TAX},
        {"shop.py": WRONG, "expected/total.txt": "-> ../shop.txt", "shop.txt": "0", "test_tax.py": TAX_WRONG},
    ),
    "setting planted by an earlier task": Twin(
        {"shop.py": SHOP, "test_shop.py": PYTEST_TOTAL},
        {"shop.py": MORE, "test_tax.py": PYTEST_TAX},
        {"shop.py": WRONG, "test_tax.py": PYTEST_TAX_WRONG},
        PYTEST,
        first={"conftest.py": "import shop\nshop.total = sum\n", "shop.py": "# A shop.\n" + SHOP},
    ),
    "module that only tests import": Twin(
        {
            "encode.py": "def encode(text):\n    return text[::-1]\n",
            "decode.py": "def decode(text):\n    return text[::-1]\n",
            "test_codes.py": case(
                "self.assertEqual(decode(encode('abc')), 'abc')",
                "from encode import encode\nfrom decode import decode",
                "test_codes",
            ),
        },
        {
            "encode.py": "def encode(text):\n    return text + '!'\n",
            "decode.py": "def decode(text):\n    return text[:-1]\n",
            "test_marks.py": case(
                "self.assertEqual(encode('abc'), 'abc!')", "from encode import encode", "test_marks"
            ),
        },
        {
            "encode.py": "def encode(text):\n    return text + '!'\n",
            "decode.py": "def decode(text):\n    return 'abc'\n",
            "test_codes.py": case(
                "self.assertTrue(decode(encode('abc')))",
                "from encode import encode\nfrom decode import decode",
                "test_codes",
            ),
        },
    ),
    "files that a check looks through": Twin(
        {"a.sql": "SECURITY ON\n"},
        {"b.sql": "SECURITY ON\n"},
        {"b.sql": "SECURITY OFF\n"},
        GREP,
        proved=False,
    ),
    "file that a check looks through and a task edits": Twin(
        {"a.sql": "SECURITY ON\n"},
        {"a.sql": "SECURITY ON\nselect 1;\n"},
        {"a.sql": "SECURITY OFF\n"},
        GREP,
        proved=False,
    ),
    "two modules that do not know each other": Twin(
        {
            "shop.py": SHOP,
            "rates.py": "def rate():\n    return 5\n",
            "test_shop.py": TOTAL,
            "test_rates.py": case("self.assertEqual(rates.rate(), 5)", "import rates", "test_rate"),
        },
        {
            "shop.py": MORE,
            "rates.py": "def rate(name='tax'):\n    return {'tax': 5}[name]\n",
            "test_tax.py": TAX,
        },
        {"shop.py": WRONG, "rates.py": "def rate(name='tax'):\n    return 5\n", "test_tax.py": TAX_WRONG},
    ),
    "generated file that a check compares": Twin(
        {
            "shop.py": SHOP,
            "names.txt": "total\n",
            "make_names.py": GENERATOR,
            "test_shop.py": TOTAL,
            "test_names.py": case(
                "self.assertEqual(subprocess.call([sys.executable, 'make_names.py', '--check']), 0)",
                "import subprocess, sys",
                "test_names",
            ),
        },
        {"shop.py": MORE, "names.txt": "total\ntax\n", "test_tax.py": TAX},
        {"shop.py": WRONG, "names.txt": "total\ntax\n", "test_tax.py": TAX_WRONG},
    ),
}
