"""A pytest plugin that reports every test and runs a canary: a test that must fail.

It is copied out of the package under a random name and runs in the project's own Python, which need not know
Segue. The file of the same name that ends in .json says where the report goes.
"""

import json
import os
import random
import unittest
from pathlib import Path

import pytest
from _pytest import runner as _runner

_CONFIG = json.loads(Path(__file__).with_suffix(".json").read_text())
_ROOT = _CONFIG["root"]
_TOKEN = _CONFIG["token"]
_KEPT = 4000
_BASE = [_ROOT]


class _PytestRecorder:
    """Collects how tests ended in this process."""

    def __init__(self):
        self.tests = {}
        self.canary = "absent"
        self.ran = []
        self.is_canary = False

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item, call):
        result = yield
        if self.is_canary:
            return
        report = result.get_result()
        entry = self._entry(*_place(item))
        if call.when == "setup":
            entry.update(outcome="passed", name="", message="", frames=[])
        _note(entry, call, report)
        if call.when == "call" and entry["outcome"] != "skipped":
            self.ran.append(item)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report):
        # Parts of a test (subtests) and, under xdist, the tests of a worker that crashed.
        if not report.failed:
            return
        file, _, rest = report.nodeid.partition("::")
        path = _relative(os.path.join(_BASE[0], file)) or file
        entry = self._entry("::".join(filter(None, (path, rest))), path)
        if entry["outcome"] != "failed":
            crash = getattr(report.longrepr, "reprcrash", None)
            name = str(getattr(crash, "message", "")).split(":")[0].strip() or "Failed"
            entry.update(outcome="failed", name=name, message=str(report.longrepr)[-_KEPT:])

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_make_collect_report(self, collector):
        result = yield
        report = result.get_result()
        if report.outcome == "failed":
            excinfo = getattr(getattr(report, "call", None), "excinfo", None)
            path = _relative(str(getattr(collector, "path", None) or getattr(collector, "fspath", "")))
            entry = self._entry(path or collector.nodeid, path)
            entry.update(outcome="failed", message=str(report.longrepr)[-_KEPT:], whole_file=True)
            entry["name"] = _cause(excinfo.value) if excinfo is not None else "CollectError"

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        wanted = set(_CONFIG["wanted"])
        if wanted:
            config.hook.pytest_deselected(
                items=[one for one in items if not wanted.intersection(_place(one))]
            )
            items[:] = [one for one in items if wanted.intersection(_place(one))]
            config.option.maxfail = 1 if _CONFIG["brief"] else config.option.maxfail

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session):
        yield
        if self.ran:
            self.is_canary = True
            try:
                self.canary = _try_canary(session, random.choice(self.ran))
            finally:
                self.is_canary = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session, exitstatus):
        if _CONFIG["wanted"] and session.exitstatus == 5:
            session.exitstatus = 0  # what is wanted may be in the next session of the command
        worker = hasattr(session.config, "workerinput")
        record = {"tests": list(self.tests.values()), "canary": self.canary, "worker": worker}
        record["spread"] = not worker and getattr(session.config.option, "dist", "no") != "no"
        if session.config.option.collectonly:
            record["tests"] = []
        folder = Path(_CONFIG["reports"])
        part = folder / ("%s-%d-%d.part" % (_TOKEN, os.getpid(), len(list(folder.iterdir()))))
        part.write_text(json.dumps(record))
        part.rename(part.with_suffix(".json"))

    def _entry(self, ident, path):
        fresh = {"id": ident, "file": path, "outcome": "passed", "name": "", "message": "", "frames": []}
        return self.tests.setdefault(ident, fresh)


def _try_canary(session, beside):
    """Run a test that must fail in the module of a test that ran; return whether its failure is reported."""
    try:
        from _pytest.fixtures import FuncFixtureInfo

        session._setupstate.teardown_exact(None)
        nothing = FuncFixtureInfo(argnames=(), initialnames=(), names_closure=[], name2fixturedefs={})
        module = beside.getparent(pytest.Module)
        item = pytest.Function.from_parent(module, name=beside.name, callobj=_must_fail, fixtureinfo=nothing)
        reports = _runner.runtestprotocol(item, log=False, nextitem=None)
    except Exception:
        return "absent"
    calls = [report for report in reports if report.when == "call"]
    return "failed" if calls and calls[0].failed and _TOKEN in str(calls[0].longrepr) else "silent"


def _must_fail():
    unittest.TestCase().assertEqual(_TOKEN, "")


def _note(entry, call, report):
    excinfo = call.excinfo
    if excinfo is None and not report.failed:
        if report.skipped:
            entry["outcome"] = "skipped"
        return
    expected = hasattr(report, "wasxfail") and report.skipped
    if excinfo is not None and (expected or excinfo.errisinstance(getattr(pytest.skip, "Exception", ()))):
        entry.update(outcome="skipped", message=str(report.longrepr)[-_KEPT:])
        return
    entry.update(outcome="failed", message=str(report.longrepr or excinfo)[-_KEPT:])
    entry["name"] = _cause(excinfo.value) if excinfo is not None else "Failed"
    if call.when != "call" and entry["name"] not in ("SyntaxError", "ImportError", "ModuleNotFoundError"):
        entry["name"] = "Setup" if call.when == "setup" else "Teardown"
    if excinfo is not None:
        files = [_relative(str(frame.path)) for frame in excinfo.traceback]
        entry["frames"] = [file for file in files if file and "site-packages" not in file][-50:]


def _cause(error):
    """The name of the exception; of one that wraps another while a file is loaded, the name of the inner."""
    while type(error).__name__ in ("CollectError", "ConftestImportFailure", "UsageError"):
        if error.__cause__ is None and error.__context__ is None:
            break
        error = error.__cause__ or error.__context__
    if type(error).__name__ == "CollectError":
        for name in ("SyntaxError", "IndentationError", "ModuleNotFoundError", "ImportError", "NameError"):
            if name in str(error):
                return name
        return "ImportError" if "importing test module" in str(error) else "CollectError"
    return type(error).__name__


def _relative(path):
    """The path of a file from the project's root on; empty: it is elsewhere."""
    path = os.path.abspath(path)
    return path[len(_ROOT) + 1 :].replace(os.sep, "/") if path.startswith(_ROOT + os.sep) else ""


def _place(item):
    path = _relative(str(getattr(item, "path", None) or item.fspath))
    return ("::".join([path, *item.nodeid.split("::", 1)[1:]]) if path else item.nodeid), path


def _forget():
    """Take what made pytest load this out of the environment of programs that tests start."""
    for name, parted, words in (
        ("PYTHONPATH", os.pathsep, [str(Path(__file__).parent)]),
        ("PYTEST_ADDOPTS", " ", _CONFIG["words"].split()),
    ):
        left = [part for part in os.environ.get(name, "").split(parted) if part and part not in words]
        os.environ.pop(name, None)
        if left:
            os.environ[name] = parted.join(left)


def pytest_configure(config):
    _BASE[0] = str(getattr(config, "rootpath", None) or config.rootdir)
    # Plug-ins that shuffle tests get one seed: runs that are compared differ in one thing only.
    for name, value in (("randomly_seed", 1), ("random_order_seed", "1")):
        if getattr(config.option, name, None) is not None:
            setattr(config.option, name, value)
    config.pluginmanager.register(_PytestRecorder(), _TOKEN + "recorder")
    if hasattr(config, "workerinput") or getattr(config.option, "dist", "no") == "no":
        _forget()  # workers, which are started later, need it
