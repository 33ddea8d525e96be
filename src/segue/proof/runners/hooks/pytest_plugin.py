"""A pytest plugin that reports every test and runs a canary: a test that must fail.

It is copied out of the package under a random name and runs in the project's own Python, which need not know
Segue. The file of the same name that ends in .json says where the report goes.
"""

import functools
import json
import os
import random
import sys
from pathlib import Path

import pytest
from _pytest import runner as _runner

_OWN = Path(__file__)
_CONFIG = json.loads(_OWN.with_suffix(".json").read_text())
_ROOT = _CONFIG["root"]
_TOKEN = _CONFIG["token"]
_KEPT = 4000
_MOST_CANARIES = 40
_PROBES = {}
for _name in _CONFIG["probes"]:
    exec(compile(_OWN.with_name(_name).read_text(), "probes", "exec"), _PROBES)
_relative, _frames = (functools.partial(_PROBES[name], _ROOT) for name in ("relative", "frames"))


def _must_fail():
    raise AssertionError(_TOKEN)


def _make_canary(beside):
    """A test function of the same name and in the same module as a test that ran, without fixtures."""
    module = beside.getparent(pytest.Module)
    if module is None:
        raise LookupError("no module")
    from _pytest.fixtures import FuncFixtureInfo

    nothing = FuncFixtureInfo(argnames=(), initialnames=(), names_closure=[], name2fixturedefs={})
    callobj = _PROBES["look_like"](_must_fail, getattr(beside, "function", None))
    return pytest.Function.from_parent(module, name=beside.name, callobj=callobj, fixtureinfo=nothing)


class _PytestRecorder:
    """Collects how tests ended in this process."""

    def __init__(self):
        self.tests = {}
        self.canary = "absent"
        self.ran = []
        self.is_canary = False
        self.equal = []
        self.apart = []

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item, call):
        result = yield
        if self.is_canary:
            return
        report = result.get_result()
        entry = self._entry(_place(item))
        if call.when == "setup":
            entry.update(outcome="passed", name="", message="", frames=[])
        _note(entry, call, report)
        if call.when == "call" and entry["outcome"] != "skipped":
            self.ran.append(item)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report):
        # Parts of a test (subtests) and, under xdist, the tests of a worker that crashed.
        if report.failed:
            entry = self._entry(_place_of_id(report))
            if entry["outcome"] != "failed":
                entry.update(
                    outcome="failed", name=_error_name(report), message=str(report.longrepr)[-_KEPT:]
                )

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_make_collect_report(self, collector):
        result = yield
        report = result.get_result()
        if report.outcome != "failed":
            return
        info = getattr(report, "call", None)
        excinfo = getattr(info, "excinfo", None)
        path = _relative(str(getattr(collector, "path", None) or getattr(collector, "fspath", "")))
        entry = self._entry((path or collector.nodeid, path))
        entry.update(outcome="failed", message=str(report.longrepr)[-_KEPT:], whole_file=True)
        entry["name"] = _cause(excinfo.value) if excinfo is not None else "CollectError"

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        wanted = _CONFIG["wanted"]
        if wanted:
            left = [item for item in items if not set(_place(item)).intersection(wanted)]
            items[:] = [item for item in items if set(_place(item)).intersection(wanted)]
            config.hook.pytest_deselected(items=left)
        if wanted and _CONFIG["blind"]:
            items.reverse()
        if wanted and _CONFIG["brief"]:
            config.option.maxfail = 1

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session):
        calls = _PROBES["NotedCalls"](_ROOT, _CONFIG["tests"]) if _CONFIG["apart"] else None
        if calls:
            calls.begin()
        yield
        if calls:
            calls.end()
            self.apart = calls.differences()
        if self.ran:
            self.canary = self._try_canaries(session)
            files = {str(item.path) for item in self.ran}
            self.equal = _PROBES["equal_to_everything"](_ROOT, files)
            if self.canary == "failed" and _PROBES["blind_unittest"](sorted(files)[:_MOST_CANARIES]):
                self.canary = "silent"

    def _try_canaries(self, session):
        """Beside tests that ran, because others may be in a module that is skipped, and under their names."""
        few = random.sample(self.ran, min(len(self.ran), _MOST_CANARIES))
        if any(_PROBES["without_assertions"](getattr(item, "function", None)) for item in few):
            return "absent"
        self.is_canary = True
        try:
            found = {self._try_canary(session, item) for item in few}
        finally:
            self.is_canary = False
        return min(found, key=("silent", "absent", "failed").index)

    def _try_canary(self, session, beside):
        try:
            session._setupstate.teardown_exact(None)
            reports = _runner.runtestprotocol(_make_canary(beside), log=False, nextitem=None)
        except Exception:
            return "absent"
        for report in reports:
            if report.when == "call":
                return "failed" if report.failed and _TOKEN in str(report.longrepr) else "silent"
        return "silent"

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session, exitstatus):
        if _CONFIG["wanted"] and session.exitstatus == 5:
            session.exitstatus = 0  # what is wanted may be in the next session of the command
        worker = hasattr(session.config, "workerinput")
        record = {"tests": list(self.tests.values()), "canary": self.canary, "worker": worker}
        record["equal"], record["apart"] = self.equal, self.apart
        record["spread"] = not worker and bool(getattr(session.config.option, "dist", "no") != "no")
        if session.config.option.collectonly:
            record["tests"] = []
        folder = Path(_CONFIG["reports"])
        part = folder / ("%s-%d-%d.part" % (_TOKEN, os.getpid(), len(list(folder.iterdir()))))
        part.write_text(json.dumps(record))
        part.rename(part.with_suffix(".json"))

    def _entry(self, place):
        ident, path = place
        fresh = {"id": ident, "file": path, "outcome": "passed", "name": "", "message": "", "frames": []}
        return self.tests.setdefault(ident, fresh)


def _note(entry, call, report):
    excinfo = call.excinfo
    if excinfo is None and not report.failed:
        if report.skipped:
            entry["outcome"] = "skipped"
        return
    expected = hasattr(report, "wasxfail") and report.skipped
    skip = getattr(pytest.skip, "Exception", ())
    if excinfo is not None and (expected or excinfo.errisinstance(skip)):
        entry.update(outcome="skipped", message=str(report.longrepr)[-_KEPT:])
        return
    entry.update(outcome="failed", message=str(report.longrepr or excinfo)[-_KEPT:])
    entry["name"] = _cause(excinfo.value) if excinfo is not None else "Failed"
    if call.when != "call" and entry["name"] not in ("SyntaxError", "ImportError", "ModuleNotFoundError"):
        entry["name"] = "Setup" if call.when == "setup" else "Teardown"
    if excinfo is not None:
        entry["frames"] = _frames(excinfo.tb)


def _cause(error):
    """The name of the exception; of one that wraps another while a file is loaded, the name of the inner."""
    inner = error
    while type(inner).__name__ in ("CollectError", "ConftestImportFailure", "UsageError"):
        if inner.__cause__ is None and inner.__context__ is None:
            break
        inner = inner.__cause__ or inner.__context__
    text = str(inner)
    if type(inner).__name__ == "CollectError":
        for name in ("SyntaxError", "IndentationError", "ModuleNotFoundError", "ImportError", "NameError"):
            if name in text:
                return name
        return "ImportError" if "importing test module" in text else "CollectError"
    return type(inner).__name__


def _error_name(report):
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(getattr(crash, "message", "")).split(":")[0].strip() or "Failed"


def _place(item):
    path = _relative(str(getattr(item, "path", None) or item.fspath))
    if not path:
        return item.nodeid, ""
    rest = item.nodeid.split("::", 1)[1:]
    return "::".join([path, *rest]), path


def _place_of_id(report):
    start = report.nodeid.split("::", 1)
    path = _relative(os.path.join(_BASE[0], start[0])) or start[0]
    return "::".join([path, *start[1:]]), path


_BASE = [_ROOT]


def _keep_order(config):
    """Give plug-ins that shuffle tests one seed: runs that are compared differ in one thing only."""
    for name, value in (("randomly_seed", 1), ("random_order_seed", "1")):
        if getattr(config.option, name, None) is not None and not _asks(config, name):
            setattr(config.option, name, value)


def _say_nothing():
    """Keep pytest from telling the product by names and variables that tests run."""
    _PROBES["rename"]()
    _runner._update_current_test_var = lambda item, when: None
    os.environ.pop("PYTEST_VERSION", None)
    vars(sys.modules["__main__"]).pop("__file__", None)
    sys.argv[:1] = ["-c"]


def _asks(config, name):
    option = "--" + name.replace("_", "-")
    words = config.invocation_params.args
    return any(str(word).split("=")[0] in (option, "-p" + option) for word in words)


def pytest_configure(config):
    _BASE[0] = str(getattr(config, "rootpath", None) or config.rootdir)
    _keep_order(config)
    if _CONFIG["blind"]:
        _say_nothing()
    config.pluginmanager.register(_PytestRecorder(), _TOKEN + "recorder")
    if hasattr(config, "workerinput") or getattr(config.option, "dist", "no") == "no":
        # With workers, these still need it.
        _PROBES["forget"](str(_OWN.parent), _CONFIG["words"])
