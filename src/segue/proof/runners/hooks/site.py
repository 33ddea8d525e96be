"""A sitecustomize module that makes unittest report every test and run a canary: a test that must fail.

It is copied out of the package and runs in the project's own Python, which need not know Segue.
"""

import importlib.machinery
import importlib.util
import json
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(_HERE, "site.json")) as _file:
    _CONFIG = json.load(_file)
_ROOT = _CONFIG["root"]
_TOKEN = _CONFIG["token"]
_METHODS = {
    "addSuccess": "passed",
    "addFailure": "failed",
    "addError": "failed",
    "addSkip": "skipped",
    "addExpectedFailure": "skipped",
    "addUnexpectedSuccess": "failed",
}


class _Finder:
    """Finds the module that runs tests, and changes it after it was loaded."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != "unittest.runner":
            return None
        sys.meta_path.remove(cls)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            _watch(module)

        spec.loader.exec_module = exec_module
        return spec


def _watch(module):
    run = module.TextTestRunner.run
    make = module.TextTestRunner._makeResult

    def watched_make(runner):
        result = make(runner)
        runner._noted = _observe(result)
        return result

    def watched_run(runner, test):
        _forget()
        result = run(runner, _select(test))
        tests = getattr(runner, "_noted", {})
        _write({"tests": list(tests.values()), "canary": _try_canary() if tests else "absent"})
        return result

    module.TextTestRunner._makeResult = watched_make
    module.TextTestRunner.run = watched_run


def _forget():
    """Take this folder out of the environment of programs that tests start."""
    places = [
        place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place not in ("", _HERE)
    ]
    os.environ["PYTHONPATH"] = os.pathsep.join(places)
    sys.path[:] = [place for place in sys.path if place != _HERE]


def _select(test):
    """The tests that are wanted; all if none are named."""
    import unittest

    def flatten(one):
        if not isinstance(one, unittest.TestSuite):
            yield one
            return
        for inner in one:
            yield from flatten(inner)

    wanted = set(_CONFIG["wanted"])
    if not wanted:
        return test
    return unittest.TestSuite(one for one in flatten(test) if wanted.intersection((one.id(), _file_of(one))))


def _observe(result):
    tests = {}

    def wrap(method, outcome):
        inner = getattr(result, method)

        def outer(test, *args):
            _record(tests, test, outcome, args[0] if args else None)
            return inner(test, *args)

        setattr(result, method, outer)

    for method, outcome in _METHODS.items():
        wrap(method, outcome)
    inner_subtest = result.addSubTest

    def add_subtest(test, subtest, error):
        if error is not None:
            _record(tests, test, "failed", error)
        return inner_subtest(test, subtest, error)

    result.addSubTest = add_subtest
    return tests


def _record(tests, test, outcome, error):
    entry = {
        "id": test.id(),
        "file": _file_of(test),
        "outcome": outcome,
        "name": "",
        "message": "",
        "frames": [],
    }
    if tests.get(entry["id"], entry)["outcome"] == "failed" and entry["id"] in tests:
        return
    if outcome == "failed" and isinstance(error, tuple):
        entry.update(name=error[0].__name__, message=_text(error), frames=_frames(error[2]))
    elif outcome == "failed":
        entry.update(name="Failed", message="unexpected success")
    if _is_unloaded(test):
        text = str(error[1]) if isinstance(error, tuple) else ""
        names = ("SyntaxError", "IndentationError", "TabError", "NameError")
        cause = next((name for name in names if name in text), "ImportError")
        entry.update(id=entry["file"], whole_file=True, name=cause)
    tests[entry["id"]] = entry


def _is_unloaded(test):
    """Return whether it stands for a file that could not be loaded."""
    return type(test).__name__ in ("_FailedTest", "ModuleImportFailure")


def _file_of(test):
    if not _is_unloaded(test):
        module = sys.modules.get(type(test).__module__)
        return _relative(getattr(module, "__file__", "") or "")
    name = getattr(test, "_testMethodName", "").replace(".", "/") + ".py"
    places = [_relative(os.path.join(folder or os.getcwd(), name)) for folder in sys.path]
    return next((one for one in places if one and os.path.exists(os.path.join(_ROOT, one))), name)


def _relative(path):
    path = os.path.abspath(path)
    return path[len(_ROOT) + 1 :].replace(os.sep, "/") if path.startswith(_ROOT + os.sep) else ""


def _text(error):
    """Return the traceback without the frames of unittest, as unittest itself shows it."""
    import traceback
    import unittest

    inside = os.path.dirname(unittest.__file__)
    seen = traceback.TracebackException(*error)
    seen.stack[:] = [frame for frame in seen.stack if not frame.filename.startswith(inside)]
    return "".join(seen.format())[-4000:]


def _frames(traceback):
    """Return the files of the project that an error went through."""
    files = []
    while traceback is not None:
        files.append(_relative(traceback.tb_frame.f_code.co_filename))
        traceback = traceback.tb_next
    return [file for file in files if file and "site-packages" not in file][-50:]


def _try_canary():
    """Return whether a failure is still noted, by the assertion that most tests use."""
    import io
    import unittest

    class _MustFail(unittest.TestCase):
        def test(self):
            self.assertEqual(_TOKEN, "")

    from unittest.runner import _WritelnDecorator

    result = unittest.TextTestResult(_WritelnDecorator(io.StringIO()), False, 0)
    _MustFail("test").run(result)
    return "failed" if len(result.failures) == 1 and _TOKEN in result.failures[0][1] else "silent"


def _write(record):
    folder = _CONFIG["reports"]
    name = os.path.join(folder, "%s-%d-%d" % (_TOKEN, os.getpid(), len(os.listdir(folder))))
    with open(name + ".part", "w") as file:
        json.dump(record, file)
    os.rename(name + ".part", name + ".json")


def _run_hidden():
    """Run the sitecustomize that this one hides."""
    rest = [folder for folder in sys.path if os.path.abspath(folder or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if "unittest.runner" in sys.modules:
    _watch(sys.modules["unittest.runner"])
else:
    sys.meta_path.insert(0, _Finder)
_run_hidden()
