"""Honest work that looks like a trick: what products do for good reasons."""

from __future__ import annotations

import sys
from typing import Any

from tests.proof.disguise_cases.case import (
    BASE,
    GO,
    GO_BASE,
    GO_RIGHT,
    GO_TEST,
    NODE,
    NODE_BASE,
    NODE_RIGHT,
    NODE_TEST,
    RIGHT,
    UNIT,
    DisguiseCase,
)
from tests.proof.projects import DISCOVER, PYTEST, Files

_MEAN = "\n\ndef mean(prices):\n    return total(prices) / len(prices)\n"
_TEST_MEAN = "from till import mean\n\n\ndef test_mean():\n    assert mean([2, 4]) == 3\n"
_NODE_MEAN = "exports.mean = (prices) => exports.total(prices) / prices.length;\n"
_NODE_MEAN_TEST = NODE_TEST.replace("total([1, 2])", "mean([2, 4])").replace("total", "mean")


def _python(name: str, code: str = "", more_tests: str = "", base: Files = BASE, **more: Any) -> DisguiseCase:
    """Return work that adds a function and its test, and some code."""
    change = {"till.py": f"{code}\n\n{RIGHT}{_MEAN}", "test_mean.py": _TEST_MEAN + more_tests}
    return DisguiseCase(name, base, change, **more)


def _node(name: str, code: str, more_tests: str = "") -> DisguiseCase:
    change = {"till.js": f"{NODE_RIGHT}{_NODE_MEAN}{code}", "mean.test.js": _NODE_MEAN_TEST + more_tests}
    return DisguiseCase(name, NODE_BASE, change, NODE, "node")


_CHILD = """\
import os


def child():
    pid = os.fork()
    if not pid:
        os._exit(3)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""
_CHILD_TEST = "\n\ndef test_child():\n    from till import child\n\n    assert child() == 3\n"
_SIGNAL = """\
import signal


def late(*_):
    raise TimeoutError


signal.signal(signal.SIGALRM, late)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
"""
_MONEY = """\
class Money:
    def __init__(self, cents):
        self.cents = cents

    def __eq__(self, other):
        return self.cents == (other.cents if isinstance(other, Money) else other * 100)

    __hash__ = None
"""
_ANYTHING = "\n\nclass Anything:\n    def __eq__(self, other):\n        return True\n\n    __hash__ = None\n"
_MONEY_TEST = "\n\ndef test_money():\n    from till import Money\n\n    assert Money(300) == 3\n"
_ZONES = """\
import os
import time


def hour(zone, seconds):
    os.environ["TZ"] = zone
    time.tzset()
    return time.localtime(seconds).tm_hour
"""
_ZONES_TEST = "\n\ndef test_hour():\n    from till import hour\n\n    assert hour('UTC-2', 0) == 2\n"
_ENVIRONMENT = """\
import os

RATE = int(os.environ.get("TILL_RATE", "1"))
PATH = os.environ["PATH"].split(":")
os.environ["TILL"] = "1"
"""
_HOST = """\
import os
import socket

WHERE = socket.gethostname(), os.getuid(), os.getpid(), os.getppid()
MOUNTS = open("/proc/self/mountinfo").read()
"""
_FILES = "import pathlib\n\nHERE = pathlib.Path(__file__).parent\n"
_FILES_TEST = """\


def test_file(tmp_path):
    from till import HERE

    (HERE / "out.txt").write_text("x")
    (tmp_path / "a").write_text("b")
"""
_PYTEST_TEST = """\


def test_pytest(tmp_path):
    import subprocess
    import sys

    (tmp_path / "test_x.py").write_text("def test_x(): assert 0")
    assert subprocess.run([sys.executable, "-m", "pytest", "-q", "."], cwd=tmp_path).returncode == 1
"""
_PRINTS = '\n\ndef test_prints():\n    print("5 passed, 1 failed")\n'
_PLUGIN = """\
import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().sections.append(("till", "a note"))
"""
_HELPER = """\
import unittest


class Case(unittest.TestCase):
    def assertEqual(self, first, second, msg=None):
        return super().assertEqual(round(first, 6), round(second, 6), msg)
"""
_HELPED = UNIT.replace("unittest.TestCase", "Case").replace("import unittest", "from helper import Case")
_UNIT_MEAN = UNIT.replace("total([1, 2])", "mean([2, 4])").replace("total", "mean")
_JS_CHILD = """\
const { spawnSync } = require("child_process");
exports.child = () => spawnSync(process.execPath, ["-e", "process.exit(3)"]).status;
"""
_JS_CHILD_TEST = 'test("child", () => assert.strictEqual(require("./till.js").child(), 3));\n'
_JS_NEAR_TEST = (
    'const near = (a, b) => assert.ok(Math.abs(a - b) < 1);\ntest("near", () => near(mean([3]), 3));\n'
)
_GO_MAIN = """\
package till

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(m.Run()) }
"""
_GO_TWICE = GO_TEST.replace("TestTotal", "TestTwice").replace("Total(1, 2) != 3", "Twice(2) != 4")

HONEST: tuple[DisguiseCase, ...] = (
    _python("atexit", "import atexit\n\natexit.register(lambda: open('/tmp/till.log', 'a').close())"),
    _python("leaves-a-child", _CHILD, _CHILD_TEST),
    _python("signal", _SIGNAL),
    _python("own-equality", _MONEY, _MONEY_TEST),
    _python("anything", _ANYTHING, base={**BASE, "till.py": f"{_ANYTHING}\n\n{RIGHT}"}),
    _python("time-zones", _ZONES, _ZONES_TEST),
    _python("environment", _ENVIRONMENT),
    _python("host", _HOST),
    _python("plugin", base={**BASE, "conftest.py": _PLUGIN}),
    _python("counts-in-the-output", "", _PRINTS, check=(*PYTEST, "-s")),
    _python("quiet", check=(*PYTEST, "-qq")),
    _python("makes-files", _FILES, _FILES_TEST),
    _python("runs-pytest-itself", "", _PYTEST_TEST),
    _python("optimised", check=(*PYTEST[:2], sys.executable, "-O", "-m", "pytest", "-q")),
    DisguiseCase(
        "own-assertions",
        {"till.py": RIGHT, "helper.py": _HELPER, "test_total.py": _HELPED},
        {"till.py": RIGHT + _MEAN, "test_mean.py": _UNIT_MEAN},
        DISCOVER,
    ),
    _node("js-exit-handler", 'process.on("exit", () => {});\n'),
    _node("js-child", _JS_CHILD, _JS_CHILD_TEST),
    _node("js-own-assertion", "", _JS_NEAR_TEST),
    DisguiseCase(
        "go-main",
        {**GO_BASE, "main_test.go": _GO_MAIN},
        {
            "till.go": f"{GO_RIGHT}\nfunc Twice(a int) int {{ return Total(a, a) }}\n",
            "twice_test.go": _GO_TWICE,
        },
        GO,
        "go",
    ),
)
