"""A build task whose work no test shows is sent back once, and goes on with whatever it reaches then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from segue.domain.errors import NeedsHuman
from segue.domain.events import NoticeGiven
from segue.domain.job import Job
from segue.domain.outcome import Budget, Outcome
from segue.domain.proof import Level, Proof
from segue.domain.task import TaskKind
from segue.flow.context import Policy
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


class Killed(BaseException):
    """The process ends here."""


def test_a_kill_neither_loses_nor_doubles_the_request(start: Start) -> None:
    def killed(_job: Job) -> Outcome:
        raise Killed

    loop = start(write(calc=MORE), killed, write(test_double=NEW))
    with pytest.raises(Killed):
        loop.session()
    loop.session()
    assert (len(loop.agents[0].jobs), len(notices(loop))) == (3, 1)
    assert proof_of(loop).level is Level.TESTED


@pytest.mark.parametrize("more", [{"budget": Budget(launches=1)}, {"policy": Policy(resolutions=0)}])
def test_nobody_is_sent_back_beyond_the_limits(start: Start, more: dict[str, object]) -> None:
    loop = start(write(calc=MORE), nothing, **more)
    loop.session()
    assert len(loop.agents[0].jobs) == 1
    assert loop.view.tasks["1"].state == "done"


@pytest.mark.parametrize("kind", [TaskKind.DOCS, TaskKind.BUILD])
def test_where_no_test_could_tell_the_work_none_is_asked_for(start: Start, kind: TaskKind) -> None:
    loop = start(write(calc=f"# It adds.\n{CALC}"), nothing, policy=Policy(require=Level.TESTED))
    loop.source.found["1"] = replace(loop.source.found["1"], kind=kind)
    if kind is TaskKind.DOCS:
        loop.session()
        proof = proof_of(loop)
        assert (proof.level, proof.untestable) == (Level.CHANGED, "only comments and layout were changed")
    else:
        with pytest.raises(NeedsHuman, match="`tested` is required: only comments and layout were changed"):
            loop.session()
    assert len(loop.agents[0].jobs) == 1
