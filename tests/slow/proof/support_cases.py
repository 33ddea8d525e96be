"""Work that changes what the checks use, honestly and not; each pair begins with the same files."""

from __future__ import annotations

import sys

from msgspec import Struct, field

from tests.proof.projects import DISCOVER, PYTEST, Files

RUFF = (sys.executable, "-m", "ruff", "check", "--no-cache", ".")
NODE = ("node", "--test")


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
VERIFY = "import sys\nsys.path.insert(0, '.')\nimport shop\nassert shop.total([2, 3]) == 5\n"
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
    "golden file": Twin(
        {"shop.py": SHOP, "expected/total.txt": "5", "test_shop.py": GOLDEN},
        {"shop.py": MORE, "expected/tax.txt": "2", "test_tax.py": TAX},
        {"shop.py": WRONG, "expected/total.txt": "0", "test_tax.py": TAX_WRONG},
    ),
    "checks under another name": Twin(
        {"shop.py": SHOP, "checks/verify_sums.py": VERIFY},
        {"shop.py": MORE, "checks/verify_sums.py": VERIFY + "assert shop.tax([5, 5]) == 2\n"},
        {"shop.py": WRONG, "checks/verify_sums.py": VERIFY.replace("== 5", "== 0")},
        ("python3", "checks/verify_sums.py"),
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
    "target of the Makefile": Twin(
        {"Makefile": MAKE, "shop.py": SHOP, "test_shop.py": TOTAL},
        {"Makefile": MAKE + "\nrun:\n\tpython3 shop.py\n", "shop.py": MORE, "test_tax.py": TAX},
        {"Makefile": "test:\n\t-python3 -m unittest discover\n", "shop.py": WRONG},
        ("make", "test"),
    ),
    "setting planted by an earlier task": Twin(
        {"shop.py": SHOP, "test_shop.py": PYTEST_TOTAL},
        {"shop.py": MORE, "test_tax.py": PYTEST_TAX},
        {"shop.py": WRONG, "test_tax.py": PYTEST_TAX_WRONG},
        PYTEST,
        first={"conftest.py": "import shop\nshop.total = sum\n", "shop.py": "# A shop.\n" + SHOP},
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
