"""What decides is repeated; what differs then is flaky: it proves nothing and refutes nothing."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from msgspec import Struct

from segue.domain.proof import CheckResult, CheckState
from segue.domain.task import TaskKind
from segue.proof.compose import Recipe
from segue.proof.decide import Decision
from segue.proof.disguise import Disguise
from segue.proof.execute import SealOptions
from segue.proof.ordinary import Repetition
from segue.proof.report import CaseResult, Report, TestOutcome
from segue.proof.runs import Observed, Runs
from tests.proof.projects import UNITTEST, Checkout, Files, needs_sandbox

pytestmark = needs_sandbox

ASK = """import unittest
from urllib.request import urlopen

import shop


def ask(name, touched=False):
    side = shop.VERSION
    try:
        shop.total([1])
    except Exception:
        side = "sabotaged"
    if touched:
        shop.total([1])
    said = urlopen(f"http://127.0.0.1:PORT/{name}/{side}").read().decode()
    if said == "S":
        raise unittest.SkipTest("now and then")
    return said == "P"
"""
OLD = """import unittest

from tests.ask import ask


class T(unittest.TestCase):
    def test_calm(self):
        self.assertTrue(ask("calm"))

    def test_old(self):
        self.assertTrue(ask("old", TOUCHED))
"""
NEW = """import unittest

from tests.ask import ask


class T(unittest.TestCase):
    def test_new(self):
        self.assertTrue(ask("new", True))
"""
SCRIPT = (
    "import shop, sys, urllib.request\n"
    "side = shop.VERSION\ntry:\n    shop.total([1])\nexcept Exception:\n    side = 'sabotaged'\n"
    "sys.exit(urllib.request.urlopen(f'http://127.0.0.1:PORT/code/{side}').read() != b'P')\n"
)
TOTAL = "VERSION = 'base'\n\n\ndef total(prices):\n    return sum(prices)\n"
HEAD = TOTAL.replace("base", "head").replace("sum(prices)", "sum(list(prices))")
OLD_TEST = "tests.test_old.T.test_old"
NEW_TEST = "tests.test_new.T.test_new"
BY_CODE = (sys.executable, "check.py")


class Oracle:
    """Tells tests how to end, one answer after the other; the last one is repeated."""

    def __init__(self) -> None:
        self.answers: dict[str, str] = {}
        self.asked: Counter[str] = Counter()
        self.ended = threading.Event()
        oracle = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer = oracle.answer(self.path.removeprefix("/"))
                if answer == "H":
                    oracle.ended.wait(30)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(answer.encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, key: str) -> str:
        said = self.answers.get(key, "P")
        at = min(self.asked[key], len(said) - 1)
        self.asked[key] += 1
        return said[at]

    def fill(self, text: str) -> str:
        return text.replace("PORT", str(self.server.server_port))


@pytest.fixture
def oracle() -> Iterator[Oracle]:
    found = Oracle()
    yield found
    found.ended.set()
    found.server.shutdown()
    found.server.server_close()


class Case(Struct, frozen=True):
    """How often-asked tests answer on each side, and what is to be said about the work."""

    answers: dict[str, str]
    state: CheckState = CheckState.PASSED
    flaky: tuple[str, ...] = ()
    proved: tuple[str, ...] = ()
    capped: bool = False
    touched: bool = False
    """Whether the old test runs through what was changed."""
    new: bool = False
    """Whether the task adds a test."""
    argv: tuple[str, ...] = UNITTEST
    kind: TaskKind = TaskKind.BUILD
    command: bool = False
    noticed: bool | None = None


CASES = {
    "nothing fails": Case({}),
    "an old test fails once with the change": Case({"old/head": "FP"}, flaky=(OLD_TEST,)),
    "an old test fails each time with the change": Case({"old/head": "F"}, CheckState.FAILED),
    "an old test is repaired": Case({"old/base": "F"}, proved=(OLD_TEST,), touched=True),
    "the agent made an old test fail now and then": Case(
        {"old/head": "FP"}, flaky=(OLD_TEST,), capped=True, touched=True
    ),
    "an old test fails once while the change is sabotaged": Case(
        {"old/sabotaged": "FP"}, flaky=(OLD_TEST,), noticed=False
    ),
    "a new test proves": Case({"new/base": "F"}, proved=(NEW_TEST,), new=True),
    "a new test passes by chance": Case({"new/base": "F", "new/head": "PF"}, flaky=(NEW_TEST,), new=True),
    "a test first is red by chance": Case(
        {"new/head": "FP"}, CheckState.FAILED, flaky=(NEW_TEST,), new=True, kind=TaskKind.TEST_FIRST
    ),
    "a command fails once": Case({"code/head": "FP"}, CheckState.NOTHING, flaky=("",), argv=BY_CODE),
}


def examine(tmp_path: Path, oracle: Oracle, case: Case) -> tuple[Checkout, CheckResult]:
    oracle.answers = case.answers
    base: Files = {
        "shop.py": TOTAL,
        "check.py": oracle.fill(SCRIPT),
        "tests/__init__.py": "",
        "tests/ask.py": oracle.fill(ASK),
        "tests/test_old.py": OLD.replace("TOUCHED", str(case.touched)),
    }
    project = Checkout(tmp_path, base, SealOptions(timeout=6, network=True))
    change = {"shop.py": HEAD, **({"tests/test_new.py": NEW} if case.new else {})}
    if case.kind is TaskKind.TEST_FIRST:
        change = {"tests/test_new.py": NEW, "shop.py": HEAD}
    return project, project.check(change, case.argv, case.kind)


@pytest.mark.parametrize("name", CASES)
def test_what_decides_is_repeated(tmp_path: Path, oracle: Oracle, name: str) -> None:
    case = CASES[name]
    _, result = examine(tmp_path, oracle, case)
    assert result.state is case.state, result
    assert result.flaky == tuple(key or result.command for key in case.flaky), result
    assert result.proved == tuple(key or result.command for key in case.proved), result
    assert bool(result.cap) is case.capped, result.cap
    assert case.noticed in (None, result.noticed)


def test_a_pass_that_decides_nothing_is_not_repeated(tmp_path: Path, oracle: Oracle) -> None:
    examine(tmp_path, oracle, Case({}))
    sides = {"base": 1, "head": 2, "sabotaged": 1}  # the work is run once more as its user would
    assert oracle.asked == {f"{one}/{side}": n for one in ("calm", "old") for side, n in sides.items()}


@pytest.mark.parametrize(("flaky", "state"), [((), CheckState.REFUTED), (("luck",), CheckState.PASSED)])
def test_a_flaky_test_is_no_difference_between_watched_and_ordinary(
    flaky: tuple[str, ...], state: CheckState
) -> None:
    passed = {name: CaseResult(name, TestOutcome.PASSED) for name in ("luck", "steady")}
    watched = Observed(0, Report(passed, runners=("node:test",)), "pass 2\nfail 0\n")
    unlucky = Observed(1, output="pass 1\nfail 1\n")

    async def rerun(recipe: Recipe, disguise: Disguise, _: Sequence[str]) -> Observed:
        return unlucky if disguise is Disguise.ORDINARY and recipe.code == "head" else watched

    again = Repetition(rerun, ("node", "--test"), Recipe("head", "head"), flaky)
    runs = Runs(watched, watched, watched)
    judged = asyncio.run(again.judge(runs, Decision(CheckState.PASSED), unlucky))[1]
    assert judged.state is state
