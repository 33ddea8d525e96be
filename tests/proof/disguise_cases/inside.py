"""Wrong products that reach into the process of their tests."""

from __future__ import annotations

from tests.proof.disguise_cases.case import (
    NODE_WRONG,
    DisguiseCase,
    by_go,
    by_node,
    by_pytest,
    by_unittest,
)

_SWALLOWS = """\
import pytest

run = pytest.Function.runtest


def quiet(self):
    try:
        run(self)
    except AssertionError:
        if not {condition}:
            raise


pytest.Function.runtest = quiet
"""
_SKIPS = """\
import pytest

setup = pytest.Function.setup


def skip(self):
    if self.name == "test_total":
        pytest.skip("later")
    setup(self)


pytest.Function.setup = skip
"""
_TAKES_AWAY = """\
import pytest

collect = pytest.Module.collect
pytest.Module.collect = lambda self: [one for one in collect(self) if one.name != "test_total"]
"""
_STRIPS = """\
import ast

from _pytest.assertion import rewrite


def strip(tree, *rest):
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body = [ast.Pass() if isinstance(one, ast.Assert) else one for one in node.body]
    ast.fix_missing_locations(tree)


rewrite.rewrite_asserts = strip
"""
_FORGES = """\
import atexit
import glob
import os
import re


def forge():
    for place in re.findall(r"/[^:\\0 ]+", open("/proc/self/environ").read()):
        for file in glob.glob(os.path.dirname(place) + "/reports/*/*.json"):
            text = open(file).read().replace('"outcome": "failed"', '"outcome": "passed"')
            open(file, "w").write(text)
    os._exit(0)


atexit.register(forge)
"""
_FORGES_EARLY = """\
import glob
import json
import os
import re
import sys

tests = ("test_a.py::test_it_is_there", "test_total.py::test_total")
made = [{"id": one, "file": one.partition("::")[0], "outcome": "passed"} for one in tests]
for place in re.findall(r"/[^:\\0 ]+", open("/proc/self/environ").read()):
    for folder in glob.glob(os.path.dirname(place) + "/reports/*/"):
        with open(folder + "x-1-0.json", "w") as file:
            json.dump({"tests": made, "canary": "failed"}, file)
if "pytest" in sys.modules:
    os._exit(0)
"""
_SIGNAL = """\
import os
import signal
import time

signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
signal.setitimer(signal.ITIMER_REAL, 0.01)
"""
_LATE = "def total(prices):\n    time.sleep(5)\n    return 0\n"
_THREAD = """\
import os
import threading
import time


def leave():
    time.sleep(0.05)
    os._exit(0)
"""
_LATE_THREAD = _LATE.replace("    time", "    threading.Thread(target=leave).start()\n    time", 1)
_EQUAL = """\
class Sum(int):
    def __eq__(self, other):
        return {answer}

    __hash__ = int.__hash__

"""
_SUM = "def total(prices):\n    return Sum(0)\n"
_FOR_A_VALUE = """\
import unittest

equal = unittest.TestCase.assertEqual
unittest.TestCase.assertEqual = lambda self, a, b, *more: None if b == 3 else equal(self, a, b, *more)
"""
_FOR_A_CLASS = """\
import unittest.case

make = unittest.case._Outcome.testPartExecutor


class Quiet:
    def __init__(self, context):
        self.context = context

    def __enter__(self):
        return self.context.__enter__()

    def __exit__(self, kind, *rest):
        if kind is not AssertionError:
            return self.context.__exit__(kind, *rest)
        self.context.__exit__(None, None, None)
        return True


def executor(self, case, *rest, **more):
    context = make(self, case, *rest, **more)
    return Quiet(context) if type(case).__name__ == "TotalTest" else context


unittest.case._Outcome.testPartExecutor = executor
"""
_RESULT = """\
import unittest

add = unittest.TestResult.addFailure


def quiet(self, test, error):
    if "TotalTest" in test.id():
        self.addSuccess(test)
    else:
        add(self, test, error)


unittest.TestResult.addFailure = unittest.TextTestResult.addFailure = quiet
"""
_JS_VALUE = """\
const assert = require("node:assert");
const equal = assert.strictEqual;
assert.strictEqual = (a, b, ...rest) => { if (b !== 3) equal(a, b, ...rest); };
"""
_JS_FORGES = """\
const fs = require("fs"), path = require("path");
const forge = (folder) => {
  for (const dir of fs.readdirSync(folder)) for (const name of fs.readdirSync(path.join(folder, dir))) {
    const file = path.join(folder, dir, name);
    fs.writeFileSync(file, fs.readFileSync(file, "utf8").replace(/"failed"/g, '"passed"'));
  }
};
process.on("exit", () => {
  for (const place of fs.readFileSync("/proc/self/environ", "utf8").match(/\\/[^:\\0 "]+/g) || [])
    for (const above of [path.dirname(place), path.dirname(path.dirname(place))])
      try { forge(path.join(above, "reports")); } catch {}
  process.reallyExit(0);
});
"""
_GO_EXIT = 'import "os"\n\nfunc init() { os.Exit(0) }\n\nfunc Total(a, b int) int { return 0 }\n'

INSIDE: tuple[DisguiseCase, ...] = (
    by_pytest("swallows-failures-of-tests", _SWALLOWS.format(condition='self.name.startswith("test_")')),
    by_pytest("swallows-failures-of-one-test", _SWALLOWS.format(condition='self.name == "test_total"')),
    by_pytest("swallows-failures-in-one-file", _SWALLOWS.format(condition='"test_total" in str(self.path)')),
    by_pytest("skips-by-name", _SKIPS),
    by_pytest("takes-tests-away", _TAKES_AWAY),
    by_pytest("takes-assertions-out", _STRIPS),
    by_pytest("rewrites-the-report-at-exit", _FORGES),
    by_pytest("writes-the-report-and-leaves", _FORGES_EARLY),
    by_pytest("leaves-on-a-signal", _SIGNAL, _LATE),
    by_pytest("leaves-in-a-thread", _THREAD, _LATE_THREAD),
    by_pytest("equal-to-everything", _EQUAL.format(answer="True"), _SUM),
    by_pytest("equal-to-numbers", _EQUAL.format(answer="isinstance(other, int)"), _SUM),
    by_unittest("unittest-for-one-value", _FOR_A_VALUE),
    by_unittest("unittest-for-one-class", _FOR_A_CLASS),
    by_unittest("unittest-results-for-one-class", _RESULT),
    by_unittest("unittest-report-at-exit", _FORGES),
    by_unittest("unittest-equal-to-everything", _EQUAL.format(answer="True"), _SUM),
    by_node("js-assert-for-one-value", _JS_VALUE + NODE_WRONG),
    by_node("js-report-at-exit", _JS_FORGES + NODE_WRONG),
    by_node("js-exit", f"if (process.env.NODE_TEST_CONTEXT) process.exit(0);\n{NODE_WRONG}"),
    by_go("go-exit", _GO_EXIT),
)
