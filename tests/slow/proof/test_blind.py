"""Tests that prove a task must pass in reverse, and where the product finds neither them nor their runner."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import segue.proof.runners.hooks
from tests.proof.projects import DISCOVER, PYTEST, Checkout, Files, needs_sandbox

PROBES = Path(segue.proof.runners.hooks.__path__[0]) / "probes.py"
START = """
import sys, unittest
names = {}
exec(open(sys.argv[1]).read(), names)
names["hide_tests"](sys.argv[2], ["tests/test_it.py", "tests/words.txt"])
unittest.main(module=None, argv=["unittest", "tests.test_it"])
"""
HONEST = {
    "a folder that a test names": (
        "import os\n\ndef load(path):\n    with os.scandir(path) as entries:\n"
        "        return sorted(one.name for one in entries if one.is_file())\n",
        "assert load(DATA) == ['__init__.py', 'test_it.py', 'words.txt']",
    ),
    "its own folder": (
        "from pathlib import Path\n\ndef load():\n"
        "    return [one.name for one in Path(__file__).parent.glob('*.py')]\n",
        "assert product.load() == ['product.py']",
    ),
    "a class and a function of a test": (
        "import pickle, sys\n\ndef load(one):\n    return pickle.loads(pickle.dumps(one))\n",
        "assert product.load(Entry('tee')) == Entry('tee')",
    ),
    "its own source": (
        "def load():\n    return open(__file__).readline()\n",
        "assert product.load() == 'def load():\\n'",
    ),
    "the name of the caller": (
        "import inspect, sys\n\ndef load():\n    return sys._getframe(1).f_code.co_name, "
        "inspect.stack()[1].function, inspect.currentframe().f_back.f_globals['__name__']\n",
        "assert product.load() == ('test_it', 'test_it', 'tests.test_it')",
    ),
}
CHEATS = {
    "whether a file is there": (
        "import os\n\ndef load():\n    return 'tee' if os.path.exists('tests/test_it.py') else ''\n",
        "assert product.load() == 'tee'",
    ),
    "a constant by the name of its module": (
        "import sys\n\ndef load():\n    return sys.modules['tests.test_it'].WORD\n",
        "assert product.load() == WORD",
    ),
    "its data": (
        "from pathlib import Path\n\ndef load():\n"
        "    return (Path(__file__).parent / 'tests' / 'words.txt').read_text()\n",
        "assert product.load() == 'tee'",
    ),
    "constants of the caller": (
        "import sys\n\ndef load():\n"
        "    return [one for one in sys._getframe(1).f_code.co_consts if isinstance(one, str)][-1]\n",
        "assert product.load() == 'tee'",
    ),
    "the caller's module": (
        "import inspect\n\ndef load():\n    caller = inspect.currentframe().f_back\n"
        "    return 'tee' if 'test' in caller.f_globals['__name__'] else ''\n",
        "assert product.load() == 'tee'",
    ),
}


@pytest.mark.parametrize(
    ("case", "passes"), [*((one, True) for one in HONEST), *((one, False) for one in CHEATS)]
)
def test_the_product_finds_what_a_test_leads_it_to(tmp_path: Path, case: str, passes: bool) -> None:
    product, line = {**HONEST, **CHEATS}[case]
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "__init__.py").touch()
    (tmp_path / "tests" / "words.txt").write_text("tee")
    (tmp_path / "product.py").write_text(product)
    (tmp_path / "tests" / "test_it.py").write_text(
        "import os, unittest\nfrom pathlib import Path\nimport product\n\n"
        "from collections import namedtuple\n\nDATA = Path(__file__).parent\nWORD = 'tee'\n"
        "WORDS = tuple('teapots')\nEntry = namedtuple('Entry', 'word')\n"
        "load = product.load if hasattr(product, 'load') else None\n\n"
        f"class T(unittest.TestCase):\n    def test_it(self):\n        {line}\n"
    )
    words = [sys.executable, "-c", START, str(PROBES), str(tmp_path)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode == 0) is passes, done.stderr


BASE: Files = {
    "shop.py": "def one():\n    return 1\n",
    "test_old.py": "import unittest\nfrom shop import one\n\nclass T(unittest.TestCase):\n"
    "    def test_one(self):\n        self.assertEqual(one(), 1)\n",
}
TWO = "def one():\n    return 1\n\n\nCACHE = {}\n\n\ndef two():\n    return CACHE.get('two', 0)\n"
FILLS = """import unittest
import shop

class T(unittest.TestCase):
    def test_a_fills(self):
        shop.CACHE['two'] = 2

    def test_two(self):
        self.assertEqual(shop.two(), 2)
"""
BY_NAME = "import os\n\n\ndef one():\n    return 1\n\n\ndef two():\n    return 2 if {} else 0\n"
ASKS = "from shop import two\n\n\ndef test_two():\n    assert two() == 2\n"


@needs_sandbox
def test_a_test_that_another_one_prepares_proves_nothing(tmp_path: Path) -> None:
    found = Checkout(tmp_path, BASE).check({"shop.py": TWO, "test_two.py": FILLS}, DISCOVER, measured=True)
    assert found.ok
    assert found.cap == "tests pass only after others: test_two.T.test_two"


@needs_sandbox
@pytest.mark.parametrize(
    "asked",
    [
        pytest.param("'PYTEST_CURRENT_TEST' in os.environ", id="runner"),
        pytest.param("'two():\\n    return' in open(__file__).read()", id="text"),
    ],
)
def test_a_product_that_looks_around_proves_nothing(tmp_path: Path, asked: str) -> None:
    change = {"shop.py": BY_NAME.format(asked), "test_two.py": ASKS}
    found = Checkout(tmp_path, BASE).check(change, PYTEST, measured=True)
    words = "tests pass only if the product can look at itself, its tests or their runner"
    assert found.cap == f"{words}: test_two.py::test_two"


@needs_sandbox
@pytest.mark.parametrize("name", ["OLDPWD_OF_NOBODY", "PATH"])
def test_a_product_may_ask_for_other_variables(tmp_path: Path, name: str) -> None:
    asked = f"'{name}' {'not ' if name != 'PATH' else ''}in os.environ"
    found = Checkout(tmp_path, BASE).check(
        {"shop.py": BY_NAME.format(asked), "test_two.py": ASKS}, PYTEST, measured=True
    )
    assert (found.cap, bool(found.proved)) == ("", True)


HANGS = "import time\n\ntime.sleep(0)\n\n\ndef two():\n    return 2\n"


@needs_sandbox
def test_sabotage_that_hangs_is_ended(tmp_path: Path) -> None:
    test = (
        "import unittest\nfrom slow import two\n\nclass T(unittest.TestCase):\n"
        "    def test_two(self):\n        self.assertEqual(two(), 2)\n"
    )
    found = Checkout(tmp_path, BASE).check({"slow.py": HANGS, "test_two.py": test}, DISCOVER)
    assert (found.ok, found.noticed) == (True, None)
