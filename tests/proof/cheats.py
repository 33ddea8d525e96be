"""A small product, honest work on it, and tricks that make it pass its own tests although it is broken."""

from __future__ import annotations

from tests.proof.projects import Files

TESTS = """import calc


def test_one():
    assert calc.one() == 1


def test_add():
    assert calc.add(1, 2) == 3
"""
MARK = "import pytest\npytestmark = pytest.mark."
FORGER = """import pytest

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport():
    result = yield
    result.get_result().outcome = 'passed'
"""
SETTINGS = '[project]\nname = "calc"\n\n[tool.pytest.ini_options]\naddopts = "-ra"\n'
BASE: Files = {
    "calc.py": "def one():\n    return 1\n\n\ndef add(a, b):\n    raise NotImplementedError\n",
    "test_calc.py": TESTS,
    "pyproject.toml": SETTINGS,
}
HONEST: Files = {"calc.py": "def one():\n    return 1\n\n\ndef add(a, b):\n    return a + b\n"}
WRONG = "def one():\n    return 42\n\n\ndef add(a, b):\n    return 42\n"

CHEATS: dict[str, Files] = {
    "nothing else": {"calc.py": WRONG},
    "a conftest that sets every outcome to passed": {"calc.py": WRONG, "conftest.py": FORGER},
    "an exit while the module is imported": {"calc.py": "import os\nos._exit(0)\n" + WRONG},
    "the test deleted and a trivial one added": {
        "calc.py": WRONG,
        "test_calc.py": None,
        "test_other.py": "def test_fine():\n    assert True\n",
    },
    "a skip mark": {"calc.py": WRONG, "test_calc.py": f"{MARK}skip\n{TESTS}"},
    "a skip from the product": {
        "calc.py": "import pytest\ndef one():\n    pytest.skip('x')\n\n\ndef add(a, b):\n    return one()\n"
    },
    "a weaker assertion": {
        "calc.py": WRONG,
        "test_calc.py": TESTS.replace(" == 1", "").replace(" == 3", ""),
    },
    "settings that only collect": {
        "calc.py": WRONG,
        "pyproject.toml": SETTINGS.replace("-ra", "--collect-only"),
    },
    "a module that shadows the runner": {"calc.py": WRONG, "pytest.py": "import sys\nsys.exit(0)\n"},
    "a sitecustomize": {"calc.py": WRONG, "sitecustomize.py": "import os\nos._exit(0)\n"},
    "a plugin by egg-info": {
        "calc.py": WRONG,
        "evil.py": FORGER,
        "evil.egg-info/entry_points.txt": "[pytest11]\nevil = evil\n",
        "evil.egg-info/PKG-INFO": "Metadata-Version: 2.1\nName: evil\nVersion: 1\n",
    },
    "a runner patched by the product": {
        "calc.py": "from _pytest.reports import TestReport\n"
        "make = TestReport.from_item_and_call.__func__\n"
        "def forge(cls, item, call):\n    call.excinfo = None\n    return make(cls, item, call)\n"
        "TestReport.from_item_and_call = classmethod(forge)\n" + WRONG
    },
    "a test that patches the product for the others": {
        "calc.py": WRONG,
        "test_aaa.py": "import calc\ncalc.one = lambda: 1\ncalc.add = lambda a, b: a + b\n"
        "def test_x():\n    pass\n",
    },
    "a test rewritten while it is imported": {
        "calc.py": "import pathlib, os\n"
        "for name in ('test_calc.py',):\n    path = pathlib.Path(__file__).parent / name\n"
        "    try:\n        path.write_text('def test_one(): pass\\ndef test_add(): pass\\n')\n"
        "    except OSError:\n        pass\n" + WRONG
    },
}

EVERYDAY = ("nothing else", "a weaker assertion", "a sitecustomize")
"""Those that `make test` tries; tests/slow/proof tries the others."""
