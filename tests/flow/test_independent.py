"""Independent tests in the loop: written out of sight of the work, run sealed, disputed before a judge."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from segue.domain.job import Job, Role
from segue.domain.outcome import Outcome
from segue.domain.proof import Level, Proof
from segue.domain.task import Task
from segue.domain.verdict import Action, CriterionVerdict, Evidence, Result, Verdict
from segue.flow.context import Policy
from segue.judges.checks import combine
from segue.ports import Problem
from tests.flow.loop import Behaviour, FunctionAgent, ListSource, Loop, in_turn
from tests.proof.projects import DISCOVER, needs_sandbox

pytestmark = needs_sandbox

RIGHT = "def double(x):\n    return 2 * x\n"
WRONG = "def double(x):\n    return 4\n"
PHASES = ("execute", "check", "independent")
CHECKS = (DISCOVER,)


def case(name: str, assertion: str, imports: str = "from calc import double") -> str:
    """A file with one test."""
    return (
        f"import unittest\n\n{imports}\n\n\nclass Test(unittest.TestCase):\n"
        f"    def {name}(self):\n        self.{assertion}\n"
    )


WEAK = case("test_double", "assertEqual(double(2), 4)")
STRONG = case("test_other", "assertEqual(double(5), 10)")
MISTAKEN = case("test_other", "assertEqual(double(5), 11)")


def write(files: dict[str, str]) -> Behaviour:
    def behave(job: Job) -> Outcome:
        for name, text in files.items():
            path = job.workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Outcome("Done.")

    return behave


class OneJudge:
    """Decides about tests as it is told, and keeps what it was shown."""

    name = "one"

    def __init__(self, uphold: bool) -> None:
        self.uphold = uphold
        self.seen: list[Evidence] = []

    def check(self) -> list[Problem]:
        return []

    async def judge(self, task: Task, evidence: Evidence) -> Verdict:
        self.seen.append(evidence)
        result, action = (Result.PASS, Action.PROCEED) if self.uphold else (Result.FAIL, Action.RETRY)
        criteria = tuple(CriterionVerdict(one.key, self.uphold, "") for one in task.criteria)
        return combine(Verdict(result, action, "as told", criteria), evidence.checks)  # as all judges do


Start = Callable[..., Loop]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Make a loop of one task or several, with somebody who works and somebody who tests."""

    def make(work: Behaviour, tests: Behaviour, *keys: str, judge: OneJudge | None = None) -> Loop:
        worker, tester = FunctionAgent("worker", work), FunctionAgent("tester", tests)
        loop = Loop(
            tmp_path,
            ListSource(*(keys or ("1",))),
            [worker],
            phases=PHASES,
            sealed=True,
            checks=CHECKS,
            judge=judge,
            roles={Role.TEST: [tester]},
            policy=Policy(independent=True),
        )
        (loop.repo / "readme.md").write_text("x\n")
        loop.git("add", ".")
        loop.git("commit", "-qm", "Read me")
        return loop

    return make


def proof_of(loop: Loop, key: str = "1") -> Proof:
    proof = loop.view.tasks[key].proof
    assert proof is not None
    return proof


def jobs(loop: Loop, role: str) -> list[Job]:
    agents = {"worker": loop.agents[0], "tester": loop.roles[Role.TEST][0]}
    return agents[role].jobs


def test_work_that_passes_tests_of_somebody_else_is_independent(start: Start) -> None:
    files = {"test_calc.py": STRONG, "calc.py": RIGHT, "conftest.py": "boom"}
    loop = start(write({"calc.py": RIGHT, "test_calc.py": WEAK}), write(files))
    loop.session()
    proof = proof_of(loop)
    assert proof.level is Level.INDEPENDENT, proof
    assert proof.independent is not None
    assert proof.independent.proved == ("test_independent_1_calc.Test.test_other",)
    listed = ("git", "cat-file", "--batch-all-objects", "--batch", "--unordered")
    every = subprocess.run(listed, cwd=loop.repo, check=True, capture_output=True).stdout
    assert b"double(2), 4" in every
    assert b"double(5), 10" not in every, "an agent could read it there"
    assert loop.git("ls-files").split() == ["calc.py", "readme.md", "test_calc.py"]
    assert not list((loop.root / "apart").iterdir())


def test_test_that_contradicts_the_work_is_not_dropped_without_a_judge(start: Start) -> None:
    work = write({"calc.py": RIGHT, "test_calc.py": WEAK})
    loop = start(work, write({"test_calc.py": MISTAKEN}))
    loop.session()
    assert len(jobs(loop, "worker")) == 2, "it is sent back once"
    caps = [check.cap for check in proof_of(loop).checks]
    again = "test_independent_1_2_calc.Test.test_other"
    first = "test_independent_1_calc.Test.test_other"
    assert caps == [f"independent tests contradict the work: {again}, {first}"], "also when asked again"


def test_later_task_that_breaks_independent_tests_is_sent_back(start: Start) -> None:
    work = in_turn(
        write({"calc.py": RIGHT, "test_calc.py": WEAK}),
        write({"calc.py": WRONG, "more.py": "def more():\n    return 1\n"}),
        write({"calc.py": RIGHT}),
    )
    more = case("test_more", "assertEqual(more(), 1)", "from more import more")
    loop = start(work, in_turn(write({"test_calc.py": STRONG}), write({"test_more.py": more})), "1", "2")
    loop.session()
    assert "This breaks Task 1." in jobs(loop, "worker")[2].prompt.text
    assert (proof_of(loop, "2").level, proof_of(loop, "2").held) == (Level.INDEPENDENT, (1, 1))
