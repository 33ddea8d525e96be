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
READ = "from pathlib import Path\n\ndef load(path):\n    return Path(path).read_text()\n"
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
    "a module that a test names": (
        "import importlib\n\ndef load(name):\n    return importlib.import_module(name).WORD\n",
        "assert product.load('tests.test_it') == WORD",
    ),
    "a module that the environment names": (
        "import importlib, os\n\ndef load():\n"
        "    return vars(importlib.import_module(os.environ['IT']))['WORD']\n",
        "os.environ['IT'] = 'tests.test_it'; assert product.load() == WORD",
    ),
    "a class and a function of a test": (
        "import pickle, sys\n\ndef load(one):\n    return pickle.loads(pickle.dumps(one))\n",
        "assert product.load(Entry('tee')) == Entry('tee')",
    ),
    "an argument": (READ, "assert load(Path(__file__).with_name('words.txt')) == 'tee'"),
    "a constant of the test": (READ, "assert load(DATA / 'words.txt') == 'tee'"),
    "a text from the root": (READ, "assert load('tests/words.txt') == 'tee'"),
    "an object": (
        "class Book:\n    def __init__(self, folder):\n        self.folder = folder\n\n"
        "    def load(self):\n        return (self.folder / 'words.txt').read_text()\n",
        "assert product.Book(Path(__file__).parent).load() == 'tee'",
    ),
    "another working folder": (
        "def load():\n    return open('words.txt').read()\n",
        "os.chdir(Path(__file__).parent); assert product.load() == 'tee'",
    ),
    "a variable": (
        "import os\n\ndef load():\n    return open(os.environ['WORDS']).read()\n",
        "os.environ['WORDS'] = str(Path(__file__).with_name('words.txt')); assert product.load() == 'tee'",
    ),
    "a thread": (
        "import threading\n\ndef load(path):\n    found = []\n"
        "    one = threading.Thread(target=lambda: found.append(open(path).read()))\n"
        "    one.start()\n    one.join()\n    return found[0]\n",
        "assert load(DATA / 'words.txt') == 'tee'",
    ),
    "a list of paths": (
        "def load(paths):\n    return [open(one).read() for one in paths][0]\n",
        "assert load([DATA / 'words.txt']) == 'tee'",
    ),
    "a setting of the product": (
        "PLACE = ''\n\ndef load():\n    return open(PLACE).read()\n",
        "product.PLACE = DATA / 'words.txt'; assert product.load() == 'tee'",
    ),
    "its own source": (
        "def load():\n    return open(__file__).readline()\n",
        "assert product.load() == 'def load():\\n'",
    ),
    "a warning with a line of the test": (
        "import warnings\n\ndef load():\n    warnings.warn('old', stacklevel=2)\n    return 1\n",
        "assert product.load() == 1",
    ),
    "a logged trace of the test's own function": (
        "import logging\n\ndef load(call):\n    try:\n        call()\n    except ValueError:\n"
        "        logging.exception('no')\n    return 1\n",
        "assert load(lambda: int('x')) == 1",
    ),
    "the name of the caller": (
        "import inspect, sys\n\ndef load():\n    return sys._getframe(1).f_code.co_name, "
        "inspect.stack()[1].function, inspect.currentframe().f_back.f_globals['__name__']\n",
        "assert product.load() == ('test_it', 'test_it', 'tests.test_it')",
    ),
    "values of the caller that is no test": (
        "import sys\n\ndef asks():\n    return sys._getframe(1).f_locals['word']\n\n"
        "def load():\n    word = 'tee'\n    return asks()\n",
        "assert product.load() == 'tee'",
    ),
    "the stack in a log": (
        "import logging\n\ndef load():\n    logging.error('here', stack_info=True)\n    return 1\n",
        "assert product.load() == 1",
    ),
}
CHEATS = {
    "names in a folder": (
        "from pathlib import Path\n\ndef load():\n"
        "    return 'tee' if [*Path(__file__).parent.glob('*/test*')] else ''\n",
        "assert product.load() == 'tee'",
    ),
    "a list of a folder": (
        "import os\n\ndef load():\n    return 'tee' if 'test_it.py' in os.listdir('tests') else ''\n",
        "assert product.load() == 'tee'",
    ),
    "whether a file is there": (
        "import os\n\ndef load():\n    return 'tee' if os.path.exists('tests/test_it.py') else ''\n",
        "assert product.load() == 'tee'",
    ),
    "constants of all modules": (
        "import sys\n\ndef load():\n"
        "    return [vars(one)['WORD'] for one in list(sys.modules.values()) if 'WORD' in vars(one)][0]\n",
        "assert product.load() == WORD",
    ),
    "a constant by the name of its module": (
        "import sys\n\ndef load():\n    return sys.modules['tests.test_it'].WORD\n",
        "assert product.load() == WORD",
    ),
    "name spaces that somebody has": (
        "import gc\n\ndef load():\n"
        "    return [one['WORD'] for one in gc.get_objects() if type(one) is dict and 'WORD' in one][0]\n",
        "assert product.load() == WORD",
    ),
    "objects of a certain kind": (
        "import gc\n\ndef load():\n"
        "    return [one for one in gc.get_objects() if type(one) is tuple and len(one) == 7][-1]\n",
        "assert product.load() == WORDS",
    ),
    "its data": (
        "from pathlib import Path\n\ndef load():\n"
        "    return (Path(__file__).parent / 'tests' / 'words.txt').read_text()\n",
        "assert product.load() == 'tee'",
    ),
    "its data as a default": (
        "def load(path='tests/words.txt'):\n    return open(path).read()\n",
        "assert product.load() == 'tee'",
    ),
    "its data at import": (
        "TEXT = open('tests/words.txt').read()\n\ndef load():\n    return TEXT\n",
        "assert product.load() == 'tee'",
    ),
    "a file beside the one that it was given": (
        "from pathlib import Path\n\ndef load(path):\n    return path.with_name('words.txt').read_text()\n",
        "assert load(DATA / 'test_it.py') == 'tee'",
    ),
    "values of the test": (
        "import sys\n\ndef load():\n    frame = sys._getframe(1)\n    while 'word' not in frame.f_locals:\n"
        "        frame = frame.f_back\n    return frame.f_locals['word']\n",
        "word = 'tee'; assert product.load() == word",
    ),
    "the line that calls": (
        "import linecache, sys\n\ndef load():\n    caller = sys._getframe(1)\n"
        "    line = linecache.getline(caller.f_code.co_filename, caller.f_lineno)\n"
        "    return eval(line.split('==')[1])\n",
        "assert product.load() == 'tee'",
    ),
    "constants of the caller": (
        "import sys\n\ndef load():\n"
        "    return [one for one in sys._getframe(1).f_code.co_consts if isinstance(one, str)][-1]\n",
        "assert product.load() == 'tee'",
    ),
    "the caller's name": (
        "import sys\n\ndef load():\n"
        "    return 'tee' if sys._getframe(1).f_code.co_name.startswith('test') else ''\n",
        "assert product.load() == 'tee'",
    ),
    "the caller's file": (
        "import inspect\n\ndef load():\n"
        "    return 'tee' if 'test' in inspect.stack()[1].filename[-12:] else ''\n",
        "assert product.load() == 'tee'",
    ),
    "the caller's module": (
        "import inspect\n\ndef load():\n    caller = inspect.currentframe().f_back\n"
        "    return 'tee' if 'test' in caller.f_globals['__name__'] else ''\n",
        "assert product.load() == 'tee'",
    ),
    "functions that somebody has": (
        "import gc\n\ndef load():\n"
        "    own = [one for one in gc.get_objects() if getattr(one, '__name__', '') == 'test_it']\n"
        "    return [one for one in own[0].__code__.co_consts if isinstance(one, str)][-1]\n",
        "assert product.load() == 'tee'",
    ),
    "the source of the caller": (
        "import inspect\n\ndef load():\n    return eval(inspect.stack()[1].code_context[0].split('==')[1])\n",
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


@pytest.mark.thorough
@needs_sandbox
def test_a_test_that_another_one_prepares_proves_nothing(tmp_path: Path) -> None:
    found = Checkout(tmp_path, BASE).check({"shop.py": TWO, "test_two.py": FILLS}, DISCOVER, measured=True)
    assert found.ok
    assert found.cap == "tests pass only after others: test_two.T.test_two"


@pytest.mark.thorough
@needs_sandbox
@pytest.mark.quick("runner")
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
@pytest.mark.thorough
@pytest.mark.parametrize("name", ["OLDPWD_OF_NOBODY", "PATH"])
def test_a_product_may_ask_for_other_variables(tmp_path: Path, name: str) -> None:
    asked = f"'{name}' {'not ' if name != 'PATH' else ''}in os.environ"
    found = Checkout(tmp_path, BASE).check(
        {"shop.py": BY_NAME.format(asked), "test_two.py": ASKS}, PYTEST, measured=True
    )
    assert (found.cap, bool(found.proved)) == ("", True)


HANGS = "import time\n\ntime.sleep(0)\n\n\ndef two():\n    return 2\n"


@pytest.mark.thorough
@needs_sandbox
def test_sabotage_that_hangs_is_ended(tmp_path: Path) -> None:
    test = (
        "import unittest\nfrom slow import two\n\nclass T(unittest.TestCase):\n"
        "    def test_two(self):\n        self.assertEqual(two(), 2)\n"
    )
    found = Checkout(tmp_path, BASE).check({"slow.py": HANGS, "test_two.py": test}, DISCOVER)
    assert (found.ok, found.noticed) == (True, True)
