"""Tricks that make a broken product pass its own check are refused; honest work passes."""

from __future__ import annotations

import pytest

from segue.domain.proof import CheckState, Seal
from tests.proof.projects import Checkout, Files, is_refused, needs_sandbox

pytestmark = needs_sandbox

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
    "an exit when the function is called": {
        "calc.py": "import os\ndef one():\n    os._exit(0)\ndef add(a, b):\n    os._exit(0)\n"
    },
    "the test deleted and a trivial one added": {
        "calc.py": WRONG,
        "test_calc.py": None,
        "test_other.py": "def test_fine():\n    assert True\n",
    },
    "a skip mark": {"calc.py": WRONG, "test_calc.py": f"{MARK}skip\n{TESTS}"},
    "an xfail mark": {"calc.py": WRONG, "test_calc.py": f"{MARK}xfail\n{TESTS}"},
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
    "a new pytest.ini that looks elsewhere": {
        "calc.py": WRONG,
        "pytest.ini": "[pytest]\ntestpaths = other\n",
        "other/test_x.py": "def test_x():\n    pass\n",
    },
    "a module that shadows the runner": {"calc.py": WRONG, "pytest.py": "import sys\nsys.exit(0)\n"},
    "a module that shadows the standard library": {"calc.py": WRONG, "json.py": "import os\nos._exit(0)\n"},
    "a package that shadows a part of the runner": {
        "calc.py": WRONG,
        "_pytest/__init__.py": "import os\nos._exit(0)\n",
    },
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
    "calls that never fail": {
        "calc.py": "from _pytest import runner\n"
        "make = runner.CallInfo.from_call.__func__\n"
        "def forge(cls, func, when, reraise=None):\n"
        "    def quiet():\n        try:\n            func()\n        except Exception:\n            pass\n"
        "    return make(cls, quiet, when, reraise)\n"
        "runner.CallInfo.from_call = classmethod(forge)\n" + WRONG
    },
    "a test that patches the product for the others": {
        "calc.py": WRONG,
        "test_aaa.py": "import calc\ncalc.one = lambda: 1\ncalc.add = lambda a, b: a + b\n"
        "def test_x():\n    pass\n",
    },
    "every test function replaced": {
        "calc.py": "import pytest\npytest.Function.runtest = lambda self: None\n" + WRONG
    },
    "a folder in place of the test": {
        "calc.py": WRONG,
        "test_calc.py": None,
        "test_calc.py/x": "",
    },
    "a test rewritten while it is imported": {
        "calc.py": "import pathlib, os\n"
        "for name in ('test_calc.py',):\n    path = pathlib.Path(__file__).parent / name\n"
        "    try:\n        path.write_text('def test_one(): pass\\ndef test_add(): pass\\n')\n"
        "    except OSError:\n        pass\n" + WRONG
    },
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """One repository for all cheats, so that its base is checked once."""
    return Checkout(tmp_path_factory.mktemp("cheats"), BASE)


@pytest.mark.quick("nothing else")
@pytest.mark.parametrize("change", CHEATS.values(), ids=CHEATS.keys())
def test_a_cheat_is_refused(project: Checkout, change: Files) -> None:
    result = project.check(change)
    assert is_refused(result), result


def test_honest_work_passes_and_is_proved(project: Checkout) -> None:
    result = project.check(HONEST)
    assert result.state is CheckState.PASSED, result
    assert result.proved == ("test_calc.py::test_add",)
    assert result.passed == 2
    assert result.noticed is True
    assert result.seal is Seal.SEALED
    assert result.runner == "pytest"
    assert result.exit_code == 0
    assert not result.changed
    assert not result.weaknesses


OWN_FILE = """import pathlib

import calc

KNOWN = pathlib.Path(__file__).parent / "known" / "sums.txt"


def test_it_saves_what_it_reads():
    text = KNOWN.read_text()
    KNOWN.write_text(text)
    assert calc.one() == int(text)
"""
WRITES: Files = {**BASE, "tests/test_saving.py": OWN_FILE, "tests/known/sums.txt": "1\n"}


@pytest.fixture(scope="module")
def writing(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A repository whose tests write to their own files, as some always have."""
    return Checkout(tmp_path_factory.mktemp("writing"), WRITES)


@pytest.mark.thorough
def test_tests_may_write_to_files_to_which_they_always_wrote(writing: Checkout) -> None:
    result = writing.check(HONEST)
    assert result.state is CheckState.PASSED, result
    assert result.passed == 3
    assert not result.weaknesses


@pytest.mark.thorough
def test_a_change_that_breaks_such_a_test_is_noticed(writing: Checkout) -> None:
    broken = "def one():\n    return 2\n\n\ndef add(a, b):\n    return a + b\n"
    result = writing.check({"calc.py": broken})
    assert "tests/test_saving.py::test_it_saves_what_it_reads" in result.broken, result


@pytest.mark.thorough
def test_files_to_which_no_test_wrote_are_watched_beside_them(writing: Checkout) -> None:
    assert is_refused(writing.check(CHEATS["a test rewritten while it is imported"]))
