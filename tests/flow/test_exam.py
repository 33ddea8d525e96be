"""The exam in the loop: written beside the work, tried out before it is used, asked again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from segue.domain.job import Role
from segue.domain.proof import Level
from segue.flow.context import Policy
from tests.flow.loop import Behaviour, FunctionAgent, ListSource, Loop, in_turn
from tests.flow.test_independent import CHECKS, PHASES, RIGHT, STRONG, WEAK, case, jobs, proof_of, write
from tests.proof.projects import needs_sandbox

pytestmark = needs_sandbox

TABLE = "def double(x):\n    return {2: 4}.get(x, 0)\n"
LARGER = "def double(x):\n    return {2: 4, 5: 10}.get(x, 0)\n"
WORK = {"calc.py": RIGHT, "test_calc.py": WEAK}

Examine = Callable[..., Loop]


@pytest.fixture
def examine(tmp_path: Path) -> Examine:
    """Make a loop of one task, with somebody who works and somebody who tests."""

    def make(worker: FunctionAgent | Behaviour, tester: FunctionAgent | Behaviour, **policy: object) -> Loop:
        agents = [
            one if isinstance(one, FunctionAgent) else FunctionAgent(name, one)
            for name, one in (("worker", worker), ("tester", tester))
        ]
        source = ListSource("1")
        source.found["1"] = type(source.found["1"])("1", "Double", "Add `double(x)` to calc.py.")
        loop = Loop(
            tmp_path,
            source,
            agents[:1],
            phases=PHASES,
            sealed=True,
            checks=CHECKS,
            roles={Role.TEST: agents[1:]},
            policy=Policy(independent=True, **policy),  # type: ignore[arg-type]
        )
        (loop.repo / "readme.md").write_text("x\n")
        loop.git("add", ".")
        loop.git("commit", "-qm", "Read me")
        return loop

    return make


def test_rounds_are_bounded(examine: Examine) -> None:
    work = in_turn(write({"calc.py": TABLE, "test_calc.py": WEAK}), write({"calc.py": LARGER}))
    loop = examine(work, write({"test_calc.py": STRONG}), exam_rounds=0)
    loop.session()
    assert len(jobs(loop, "tester")) == 1
    assert proof_of(loop).level is Level.INDEPENDENT


def test_exam_with_names_that_nobody_gave_is_asked_again_and_the_work_is_not(examine: Examine) -> None:
    guessed = case("test_class", "assertEqual(Doubler().run(5), 10)", "from calc import Doubler")
    tests = in_turn(write({"test_guess.py": guessed}), write({"test_calc.py": STRONG}))
    loop = examine(write(WORK), tests)
    loop.session()
    proof = proof_of(loop)
    assert len(jobs(loop, "worker")) == 1
    assert any("names that the task does not give (calc.Doubler)" in one for one in proof.reasons)
    again = jobs(loop, "tester")[1].prompt.text
    assert "def double(x)" in again
    assert "return 2 * x" not in again
    assert "test_calc.py" not in again, "the names of the work's own tests are not shown"
    assert proof.level is Level.INDEPENDENT
