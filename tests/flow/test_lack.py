"""A build task whose work no test shows is sent back once, and goes on with whatever it reaches then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from segue.domain.errors import NeedsHuman
from segue.domain.events import NoticeGiven
from segue.domain.job import Job
from segue.domain.outcome import Budget, Failure, FailureKind, Outcome
from segue.domain.proof import ChangedTest, CheckResult, CheckState, Level, Proof, Seal
from segue.flow.context import Policy
from segue.flow.lack import describe_lack
from tests.flow.loop import Behaviour, FunctionAgent, ListSource, Loop, in_turn
from tests.proof.projects import DISCOVER

CALC = "def add(a, b):\n    return a + b\n"
MORE = f"{CALC}\n\ndef double(a):\n    return 2 * a\n"
TEST = """\
import unittest
from calc import {name}


class Test(unittest.TestCase):
    def test_{name}(self):
        self.assertEqual({name}({given}), {wanted})
"""
OLD = TEST.format(name="add", given="1, 2", wanted=3)
NEW = TEST.format(name="double", given="2", wanted=4)
CHECK = DISCOVER
SENT = "is sent back once for a stronger proof"


def write(**files: str) -> Behaviour:
    def behave(job: Job) -> Outcome:
        for name, text in files.items():
            (job.workspace / f"{name}.py").write_text(text)
        return Outcome("Done.")

    return behave


def nothing(_job: Job) -> Outcome:
    return Outcome("There is nothing to add.")


Start = Callable[..., Loop]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Make a loop of one task in a project with a test."""

    def make(*work: Behaviour, text: str = "Add `double()` to calc.py.", **more: object) -> Loop:
        source = ListSource("1")
        source.found["1"] = replace(source.found["1"], title=text, text=text)
        agent = FunctionAgent("one", in_turn(*work))
        loop = Loop(tmp_path, source, [agent], sealed=True, checks=(CHECK,), **more)  # type: ignore[arg-type]
        for name, content in {"calc.py": CALC, "test_calc.py": OLD, "readme.md": "# Calc\n"}.items():
            (loop.repo / name).write_text(content)
        loop.git("add", ".")
        loop.git("commit", "-qm", "Add")
        return loop

    return make


def proof_of(loop: Loop) -> Proof:
    proof = loop.view.tasks["1"].proof
    assert proof is not None
    return proof


def notices(loop: Loop) -> list[str]:
    told = [one.event for one in loop.events if isinstance(one.event, NoticeGiven)]
    return [event.text for event in told if SENT in event.text]


def test_work_without_a_test_is_sent_back_and_what_it_reaches_counts(start: Start) -> None:
    loop = start(write(calc=MORE), write(test_double=NEW))
    loop.session()
    jobs = loop.agents[0].jobs
    assert "No test fails without your change. Add one" in jobs[1].prompt.text
    assert (len(jobs), len(notices(loop))) == (2, 1)
    proof = proof_of(loop)
    assert (proof.level, proof.checks[0].own) == (Level.TESTED, ("test_double.Test.test_double",))


def test_the_same_behaviour_needs_no_new_test(start: Start) -> None:
    text = "Make `add()` faster. Its results stay the same."
    loop = start(
        write(calc="def add(a, b):\n    return sum((a, b))\n"),
        text=text,
        policy=Policy(require=Level.TESTED),
    )
    loop.session()
    assert (len(loop.agents[0].jobs), loop.view.tasks["1"].state) == (1, "done")
    assert proof_of(loop).level is Level.CHECKED


@pytest.mark.thorough
def test_new_behaviour_is_asked_for_a_test_whatever_else_stays(start: Start) -> None:
    loop = start(write(calc=MORE), nothing, text="Refactor `add()`. The results stay the same.")
    loop.session()
    assert len(loop.agents[0].jobs) == 2


@pytest.mark.thorough
def test_it_is_asked_once_and_the_task_goes_on(start: Start) -> None:
    loop = start(write(calc=MORE), nothing)
    loop.session()
    assert len(loop.agents[0].jobs) == 2
    assert (loop.view.tasks["1"].state, proof_of(loop).level) == ("done", Level.CHANGED)


@pytest.mark.thorough
def test_an_agent_that_fails_then_loses_nothing(start: Start) -> None:
    failed = Outcome("", failure=Failure(FailureKind.CRASH, "It broke."))
    loop = start(write(calc=MORE), lambda _job: failed)
    loop.session()
    assert loop.view.tasks["1"].state == "done"
    assert "double" in loop.git("show", "HEAD:calc.py")


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.thorough
def test_a_kill_neither_loses_nor_doubles_the_request(start: Start) -> None:
    def killed(_job: Job) -> Outcome:
        raise Killed

    loop = start(write(calc=MORE), killed, write(test_double=NEW))
    with pytest.raises(Killed):
        loop.session()
    loop.session()
    assert (len(loop.agents[0].jobs), len(notices(loop))) == (3, 1)
    assert proof_of(loop).level is Level.TESTED


@pytest.mark.thorough
@pytest.mark.parametrize("more", [{"budget": Budget(launches=1)}, {"policy": Policy(resolutions=0)}])
def test_nobody_is_sent_back_beyond_the_limits(start: Start, more: dict[str, object]) -> None:
    loop = start(write(calc=MORE), nothing, **more)
    loop.session()
    assert len(loop.agents[0].jobs) == 1
    assert loop.view.tasks["1"].state == "done"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("text", "launches"), [("Explain `add()` in a comment.", 1), ("Add `double()` to calc.py.", 2)]
)
def test_a_comment_needs_no_test_where_the_task_asks_for_one(start: Start, text: str, launches: int) -> None:
    loop = start(write(calc=f"# It adds.\n{CALC}"), nothing, text=text, policy=Policy(require=Level.TESTED))
    if launches == 1:
        loop.session()
        proof = proof_of(loop)
        assert (proof.level, proof.exempt) == (Level.CHANGED, True)
        assert proof.untestable == "only comments and layout were changed"
    else:
        with pytest.raises(NeedsHuman, match="`tested` is required: only comments and layout were changed"):
            loop.session()
    assert len(loop.agents[0].jobs) == launches


def test_the_agent_is_told_what_precisely_is_missing() -> None:
    shown = CheckResult(
        "pytest", 0, "", CheckState.PASSED, runner="pytest", noticed=True, proved=("a",), seal=Seal.SEALED
    )
    assert describe_lack((shown,)) == ""
    assert "Add one" in describe_lack((replace(shown, proved=()),))
    changed = replace(shown, changed_tests=(ChangedTest("tests/test_x.py", 12),))
    assert "tests/test_x.py:12. Put back what they asserted" in describe_lack((changed,))
    blunt = replace(shown, blunt="no assertion", survivors=("calc.py:2: - a + b + a - b",))
    said = describe_lack((blunt,))
    assert "cannot tell right from wrong: no assertion" in said
    assert "calc.py:2: - a + b + a - b" in said
    assert "flaky: a" in describe_lack((replace(shown, flaky=("a",)),))
    assert (
        describe_lack((replace(shown, cap="it needs a file of the task"),)) == "It needs a file of the task."
    )
