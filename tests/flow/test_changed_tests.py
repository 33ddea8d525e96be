"""Old tests that an agent changes: it is asked once, and what nothing settles goes on, marked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from segue.domain.errors import NeedsHuman
from segue.domain.job import Job
from segue.domain.outcome import Outcome
from segue.domain.proof import ChangedTest, HowSettled, Proof
from tests.flow.loop import Behaviour, FunctionAgent, ListSource, Loop, in_turn
from tests.flow.test_independent import OneJudge, case, write
from tests.proof.projects import DISCOVER, needs_sandbox

pytestmark = needs_sandbox

OLD = case("test_double", "assertEqual(double(2), 4)")
FITTED = case("test_double", "assertEqual(double(2), 5)")
BASE = "def double(x):\n    return 2 * x\n"
WRONG = "def double(x):\n    return 5\n\n\ndef half(x):\n    return x / 2\n"
RIGHT = f"{BASE}\n\ndef half(x):\n    return x / 2\n"
HALF = case("test_half", "assertEqual(half(2), 1)", "from calc import half")
CHEAT = {"calc.py": WRONG, "test_calc.py": FITTED, "test_half.py": HALF}
Start = Callable[..., Loop]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Make a loop of one task in a project that has a test."""

    def make(work: Behaviour, words: str = "Add `half`.", judge: OneJudge | None = None) -> Loop:
        source = ListSource("1")
        source.found["1"] = replace(source.found["1"], title=words, text=words)
        checks = {"phases": ("execute", "check"), "sealed": True, "checks": (DISCOVER,)}
        loop = Loop(tmp_path, source, [FunctionAgent("worker", work)], judge=judge, **checks)  # type: ignore[arg-type]
        for name, text in (("calc.py", BASE), ("test_calc.py", OLD)):
            (loop.repo / name).write_text(text)
        loop.git("add", ".")
        loop.git("commit", "-qm", "Double")
        return loop

    return make


def changes(loop: Loop) -> list[ChangedTest]:
    proof = loop.view.tasks["1"].proof
    assert isinstance(proof, Proof), loop.view.tasks["1"]
    return [one for check in proof.checks for one in check.changed_tests]


def test_agent_is_told_what_it_changed_and_puts_it_back(start: Start) -> None:
    loop = start(in_turn(write(CHEAT), write({"calc.py": RIGHT, "test_calc.py": OLD})))
    loop.session()
    assert len(loop.agents[0].jobs) == 2
    asked = loop.agents[0].jobs[1].prompt.text
    words = "test_calc.py:8 was changed although the task does not ask for it: put it back or say why."
    assert words in asked
    assert "double(2)" in asked
    assert changes(loop) == []


def test_agent_that_keeps_its_change_is_not_stopped_but_marked(start: Start) -> None:
    def explain(job: Job) -> Outcome:
        return Outcome("The old test was wrong, because five is nicer.")

    loop = start(in_turn(write(CHEAT), explain))
    loop.session()
    assert len(loop.agents[0].jobs) == 2, "it is asked once"
    (one,) = changes(loop)
    assert (one.path, one.line, one.how) == ("test_calc.py", 8, HowSettled.UNSETTLED)
    assert "five is nicer" in one.why
    assert loop.source.tasks().tasks[0].status == "done"


SKIPPED = OLD.replace("    def test_double", "    @unittest.skip('later')\n    def test_double")


def test_an_old_test_that_fails_on_the_work_must_run(start: Start) -> None:
    loop = start(write({**CHEAT, "test_calc.py": SKIPPED}))
    with pytest.raises(NeedsHuman, match=r"test_calc\.py:7 is skipped now") as caught:
        loop.session()
    assert "Old tests must run and pass" in caught.value.message
    assert len(loop.agents[0].jobs) > 1, "it is sent back first"
    assert "test_calc.py:7 is skipped now" in loop.agents[0].jobs[1].prompt.text
    assert loop.source.tasks().tasks[0].status == "pending"


def test_change_that_the_task_asks_for_needs_nobody(start: Start) -> None:
    loop = start(write(CHEAT), "`double` of 2 is 5 from now on. Adapt its test.")
    loop.session()
    assert len(loop.agents[0].jobs) == 1
    (one,) = changes(loop)
    assert one.how is HowSettled.ASKED
    assert "Adapt its test" in one.why


def test_judge_decides_where_words_do_not(start: Start) -> None:
    judge = OneJudge(uphold=True)
    loop = start(write(CHEAT), judge=judge)
    loop.session()
    assert (len(loop.agents[0].jobs), len(judge.seen)) == (1, 1)
    assert "-        self.assertEqual(double(2), 4)" in judge.seen[0].diff
    assert [one.how for one in changes(loop)] == [HowSettled.JUDGED]
