"""The exam in the loop: written beside the work, tried out before it is used, asked again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest

from segue.domain.events import AgentStarted, Event
from segue.domain.job import Job, Role
from segue.domain.outcome import Outcome, Usage
from segue.domain.proof import Level
from segue.flow.context import Policy
from tests.flow.loop import Behaviour, FunctionAgent, ListSource, Loop, in_turn
from tests.flow.test_independent import CHECKS, PHASES, RIGHT, STRONG, WEAK, case, jobs, proof_of, write
from tests.proof.projects import needs_sandbox

pytestmark = needs_sandbox

TABLE = "def double(x):\n    return {2: 4}.get(x, 0)\n"
LARGER = "def double(x):\n    return {2: 4, 5: 10}.get(x, 0)\n"
VARIANT = case("test_others", "assertEqual(double(7), 14)")
WORK = {"calc.py": RIGHT, "test_calc.py": WEAK}

Examine = Callable[..., Loop]


class Meeting(FunctionAgent):
    """An agent that ends only when another one has begun."""

    def __init__(self, name: str, behave: Behaviour, comes: asyncio.Event, waits: asyncio.Event) -> None:
        super().__init__(name, behave)
        self._comes, self._waits = comes, waits

    async def run(self, job: Job) -> AsyncGenerator[Event | Outcome, None]:
        """Say that it is there, wait for the other one, and work."""
        self.jobs.append(job)
        yield AgentStarted("function")
        self._comes.set()
        await asyncio.wait_for(self._waits.wait(), 120)
        yield self._behave(job)


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


@pytest.mark.thorough
def test_exam_is_written_while_the_worker_works(examine: Examine) -> None:
    begun, written = asyncio.Event(), asyncio.Event()
    worker = Meeting("worker", write(WORK), begun, written)
    loop = examine(worker, Meeting("tester", write({"test_calc.py": STRONG}), written, begun))
    loop.session()
    assert proof_of(loop).level is Level.INDEPENDENT
    assert (len(jobs(loop, "worker")), len(jobs(loop, "tester"))) == (1, 1)


class Killed(BaseException):
    """The process ends here."""


def killed(job: Job) -> Outcome:
    raise Killed


@pytest.mark.thorough
def test_writer_that_is_killed_beside_the_worker_is_adopted(examine: Examine) -> None:
    loop = examine(write(WORK), in_turn(killed, write({"test_calc.py": STRONG})))
    with pytest.raises(Killed):
        loop.session()
    loop.session()
    first, second = jobs(loop, "tester")
    assert first.token == second.token, "the same launch, not another one"
    assert second.begun
    assert (proof_of(loop).level, len(jobs(loop, "worker"))) == (Level.INDEPENDENT, 1)


@pytest.mark.thorough
def test_exam_is_not_written_again_when_the_worker_was_killed(examine: Examine) -> None:
    begun, written = asyncio.Event(), asyncio.Event()
    behave = in_turn(killed, write(WORK))
    worker = Meeting("worker", behave, begun, written)
    loop = examine(worker, Meeting("tester", write({"test_calc.py": STRONG}), written, begun))
    with pytest.raises(Killed):
        loop.session()
    loop.session()
    tokens = {job.token for job in jobs(loop, "tester")}
    assert len(tokens) == 1
    assert proof_of(loop).level is Level.INDEPENDENT


@pytest.mark.thorough
def test_who_adds_only_the_example_it_was_told_fails_the_next_variant(examine: Examine) -> None:
    work = in_turn(write({"calc.py": TABLE, "test_calc.py": WEAK}), write({"calc.py": LARGER}))
    loop = examine(work, in_turn(write({"test_calc.py": STRONG}), write({"test_more.py": VARIANT})))
    loop.session()
    proof = proof_of(loop)
    assert proof.level is Level.CHECKED
    assert "independent tests contradict the work" in proof.reasons[0]
    assert "test_independent_1_2_more" in proof.reasons[0]
    first, again = (job.prompt.text for job in jobs(loop, "tester")[:2])
    assert "test_independent_1_calc.Test.test_other" in again
    assert "another way" in again
    assert "another way" not in first


@pytest.mark.thorough
def test_rounds_are_bounded(examine: Examine) -> None:
    work = in_turn(write({"calc.py": TABLE, "test_calc.py": WEAK}), write({"calc.py": LARGER}))
    loop = examine(work, write({"test_calc.py": STRONG}), exam_rounds=0)
    loop.session()
    assert len(jobs(loop, "tester")) == 1
    assert proof_of(loop).level is Level.INDEPENDENT


@pytest.mark.thorough
def test_no_more_tests_are_asked_for_than_may_be_paid(examine: Examine) -> None:
    def dear(job: Job) -> Outcome:
        write({"test_calc.py": STRONG})(job)
        return Outcome("Done.", usage=Usage(1, 1, 3.0))

    work = in_turn(write({"calc.py": TABLE, "test_calc.py": WEAK}), write({"calc.py": RIGHT}))
    loop = examine(work, dear, exam_cost=2.0)
    loop.session()
    assert len(jobs(loop, "tester")) == 1


@pytest.mark.thorough
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


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("test", "dropped"),
    [
        ("def test_x(:\n", ""),
        (case("test_true", "assertTrue(True)", "import sys"), "test_independent_1_bad.Test.test_true"),
    ],
)
def test_exam_that_shows_nothing_is_not_used_and_the_work_goes_on(
    examine: Examine, test: str, dropped: str
) -> None:
    loop = examine(write(WORK), write({"test_bad.py": test}))
    loop.session()
    proof = proof_of(loop)
    assert (proof.level, len(jobs(loop, "worker"))) == (Level.TESTED, 1)
    why = "passes without the work" if dropped else "test_independent_1_bad.py cannot be loaded"
    assert any(why in one for one in proof.reasons), proof.reasons
    assert proof.dropped == ((dropped,) if dropped else ())


BOMB = "LEFT = [1] * 8\n\n\ndef double(x):\n    return 2 * x * (LEFT.pop() if LEFT else 0)\n"
MANY = case("test_many", "assertEqual([double(n) for n in range(99)], [2 * n for n in range(99)])")


@pytest.mark.thorough
@pytest.mark.parametrize("insists", [False, True])
def test_work_that_fails_the_exam_and_then_its_own_tests_is_sent_back(
    examine: Examine, insists: bool
) -> None:
    """The exam wears out what the work's own tests use; it fails alone as well."""
    again = write({"calc.py": BOMB if insists else RIGHT})
    loop = examine(
        in_turn(write({"calc.py": BOMB, "test_later.py": WEAK}), again), write({"test_calc.py": MANY})
    )
    loop.session()
    assert "test_many" in jobs(loop, "worker")[1].prompt.text
    assert len(jobs(loop, "worker")) == 2
    assert proof_of(loop).level is (Level.CHECKED if insists else Level.INDEPENDENT)


@pytest.mark.thorough
def test_exam_that_breaks_other_tests_alone_is_not_used(examine: Examine) -> None:
    spoils = case("test_spoils", "assertEqual((double(2), setattr(calc, 'double', None)), (4, None))")
    work = {
        "calc.py": RIGHT,
        "test_later.py": case("test_two", "assertEqual(calc.double(2), 4)", "import calc"),
    }
    loop = examine(write(work), write({"test_calc.py": f"import calc\n{spoils}"}))
    loop.session()
    assert len(jobs(loop, "worker")) == 1
    assert any("cannot be run with them" in one for one in proof_of(loop).reasons)


@pytest.mark.thorough
def test_exam_that_passes_whatever_the_work_does_shows_nothing(examine: Examine) -> None:
    vain = case("test_there", "assertTrue(callable(calc.double))", "import calc")
    loop = examine(write(WORK), write({"test_vain.py": vain}))
    (loop.repo / "calc.py").write_text("LIMIT = 100\n")
    loop.git("add", ".")
    loop.git("commit", "-qm", "Begin")
    loop.session()
    proof = proof_of(loop)
    assert proof.level is Level.TESTED
    assert proof.dropped == ("test_independent_1_vain.Test.test_there",)
    assert any("pass whatever the work does" in one for one in proof.reasons)


@pytest.mark.thorough
def test_writer_is_shown_the_wrong_versions_that_pass(examine: Examine) -> None:
    clamp = "def double(x):\n    if x > 100:\n        return 200\n    return 2 * x\n"
    edge = case("test_edge", "assertEqual((double(100), double(101), double(500)), (200, 200, 200))")
    tests = in_turn(write({"test_calc.py": STRONG}), write({"test_edge.py": edge}))
    loop = examine(write({"calc.py": clamp, "test_calc.py": WEAK}), tests)
    loop.session()
    again = jobs(loop, "tester")[1].prompt.text
    assert "calc.py:" in again
    assert "wrong versions of single lines" in again
    proof = proof_of(loop)
    assert proof.level is Level.INDEPENDENT
    assert proof.independent is not None
    assert len(proof.independent.proved) == 2


@pytest.mark.thorough
@pytest.mark.parametrize("insists", [False, True])
def test_writer_who_only_repeats_examples_is_asked_for_other_values(examine: Examine, insists: bool) -> None:
    """A table of the examples passes such tests."""
    again = write({"test_more.py": case("test_more", "assertEqual(double(2), 4)") if insists else VARIANT})
    work = in_turn(write({"calc.py": TABLE, "test_calc.py": WEAK}), write({"calc.py": RIGHT}))
    loop = examine(work, in_turn(write({"test_calc.py": WEAK}), again))
    source = loop.source
    source.found["1"] = type(source.found["1"])("1", "Double", "Add `double(x)` to calc.py: double(2) is 4.")
    loop.session()
    assert "nothing but the examples" in jobs(loop, "tester")[1].prompt.text
    reasons = proof_of(loop).reasons
    assert any("nothing but examples" in one for one in reasons) is insists, reasons
    assert (loop.repo / "calc.py").read_text() == (TABLE if insists else RIGHT)


@pytest.mark.thorough
def test_where_behaviour_stays_the_exam_asks_for_what_was_there(examine: Examine) -> None:
    work = in_turn(write({"calc.py": TABLE, "test_calc.py": WEAK}), write({"calc.py": RIGHT}))
    loop = examine(work, write({"test_calc.py": STRONG}))
    source = loop.source
    source.found["1"] = type(source.found["1"])("1", "Speed up", "Speed up `double` in calc.py.")
    (loop.repo / "calc.py").write_text("def double(x):\n    return x + x\n")
    loop.git("add", ".")
    loop.git("commit", "-qm", "Begin")
    loop.session()
    assert "other code that does the same" in jobs(loop, "tester")[0].prompt.text
    assert "test_other" in jobs(loop, "worker")[1].prompt.text
    assert (loop.repo / "calc.py").read_text() == RIGHT
    assert proof_of(loop).dropped == ()


@pytest.mark.thorough
def test_card_knows_that_the_writer_is_of_the_same_vendor(examine: Examine) -> None:
    loop = examine(write(WORK), FunctionAgent("worker-cloud", write({"test_calc.py": STRONG})))
    loop.session()
    independent = proof_of(loop).independent
    assert independent is not None
    assert (independent.by, independent.same_vendor) == ("worker-cloud", True)
