"""Tests that combine tasks: what is tested together, who broke it, and that it goes back to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.errors import NeedsHuman
from segue.domain.events import NoticeGiven, TaskCommented, TaskEnded, TaskStarted
from segue.domain.job import Job, Role
from segue.domain.outcome import Outcome
from segue.domain.proof import Level
from segue.domain.question import ASKS
from segue.domain.task import Task, TaskKind, TaskStatus
from segue.flow.context import Lanes, Policy
from segue.flow.parallel import run_side_by_side
from segue.flow.scheduler import Tally, combine_tasks
from segue.parts.exam.breaker import find_breaker
from segue.parts.exam.groups import find_groups
from segue.parts.exam.together import combine
from segue.reports.card.build import find_combined
from segue.runtime.pull_request import find_returned
from tests.cli.place import Place
from tests.flow.loop import Behaviour, FunctionAgent, ListSource, Loop, in_turn
from tests.flow.side_by_side import PacedAgent, SideLoop
from tests.flow.test_endings import FOLLOWS
from tests.flow.test_independent import CHECKS, case, jobs, proof_of, write
from tests.flow.test_parallel import waits
from tests.proof.projects import needs_sandbox
from tests.web.place import add_events

PUT = "def put(box, item):\n    box.append(item)\n"
PUT_FIRST = "def put(box, item):\n    box.insert(0, item)\n"
TAKE = "def take(box):\n    return box.pop(0)\n"
COUNT = "def count(box):\n    return len(box)\n"
IN_ORDER = """\
import unittest

from box import put
from taking import take


class Test(unittest.TestCase):
    def test_in_order(self):
        crate = []
        for item in ("pear", "plum"):
            put(crate, item)
        self.assertEqual(take(crate), "pear", "put pear, then plum: the one that was put first comes out")
"""
WORK: dict[str, Behaviour] = {
    "1": write(
        {"box.py": PUT, "test_box.py": case("test_put", "assertIsNone(put([], 1))", "from box import put")}
    ),
    "2": write(
        {
            "taking.py": TAKE,
            "test_taking.py": case("test_take", "assertEqual(take([7]), 7)", "from taking import take"),
        }
    ),
    "3": write(
        {
            "box.py": PUT_FIRST,
            "count.py": COUNT,
            "test_count.py": case("test_count", "assertEqual(count([7]), 1)", "from count import count"),
        }
    ),
}

Begin = Callable[..., Loop]


@pytest.fixture
def begin(tmp_path: Path) -> Begin:
    """Make a loop of three tasks, of which the third breaks what the others do together."""

    def make(tests: Behaviour, kind: type[Loop] = Loop, **work: Behaviour) -> Loop:
        def behave(job: Job) -> Outcome:
            task = job.labels["task"]
            return {**WORK, "combined-run-1": write({"box.py": PUT}), **work}[task](job)

        source = ListSource()
        for key, words in {
            "1": "Add `put(box, item)` to box.py: it puts an item into a list.",
            "2": "Add `take(box)` to taking.py: it takes out the item that was put first.",
            "3": "Add `count(box)` to count.py.",
        }.items():
            source.found[key] = Task(key, f"Title {key}", words)
        loop = kind(
            tmp_path,
            source,
            [PacedAgent("worker", behave, FOLLOWS)],
            phases=("execute", "check"),
            sealed=True,
            checks=CHECKS,
            roles={Role.TEST: [FunctionAgent("tester", tests)]},
            policy=Policy(combine=True),
            combine=combine,
        )
        (loop.repo / "readme.md").write_text("x\n")
        loop.git("add", ".")
        loop.git("commit", "-qm", "Read me")
        return loop

    return make


def said(loop: Loop) -> str:
    """What the run has told people."""
    return "\n".join(one.event.text for one in loop.events if isinstance(one.event, NoticeGiven))


@pytest.mark.thorough
@needs_sandbox
def test_who_breaks_what_earlier_tasks_do_together_gets_it_back(begin: Begin) -> None:
    loop = begin(write({"test_order.py": IN_ORDER}))
    loop.session()
    asked = jobs(loop, "tester")[0].prompt.text
    assert "need at least two of them" in asked
    assert "takes out the item that was put first" in asked
    assert "def take(box)" in asked
    assert "box.pop" not in asked, "names only, never bodies"
    assert "failed after task 3" in said(loop)
    back = jobs(loop, "worker")[-1]
    assert back.labels["task"] == "combined-run-1"
    assert "They passed before task 3" in back.prompt.text
    assert "the one that was put first comes out" in back.prompt.text
    assert "take(crate)" not in back.prompt.text, "what happened, not how it is tested"
    assert loop.view.tasks["combined-run-1"].state == "done"
    assert proof_of(loop, "combined-run-1").level is Level.INDEPENDENT
    assert (loop.repo / "box.py").read_text() == PUT
    assert not list(loop.repo.glob("test_independent*"))
    with loop.store() as store:
        run = store.run(loop.run_id)
        assert run is not None
        known = find_returned(store, run, "combined-run-1")  # so that a person can decide about it
    assert known is not None
    assert (known.title, known.status) == ("Make task 3 fit 1, 2", TaskStatus.DONE)


@needs_sandbox
@pytest.mark.thorough
def test_what_fits_together_costs_one_launch_and_is_asked_once(begin: Begin) -> None:
    alone = {
        "count.py": COUNT,
        "test_count.py": case("test_count", "assertEqual(count([7]), 1)", "from count import count"),
    }
    loop = begin(write({"test_order.py": IN_ORDER}), **{"3": write(alone)})
    loop.session()
    loop.session()
    assert len(jobs(loop, "tester")) == 1
    assert "combined-run-1" not in loop.view.tasks
    assert "Tests that combine the tasks 1, 2, 3: they pass." in said(loop)
    with loop.store() as store:
        run = store.run(loop.run_id)
        assert run is not None
        ((name, tests),) = find_combined(store, run)  # for `segue proof --tests`
    assert (name, len(tests.files)) == ("together run", 1)


class Killed(BaseException):
    """The process ends here."""


@needs_sandbox
@pytest.mark.thorough
def test_killed_while_it_is_corrected_it_is_continued_and_not_asked_again(begin: Begin) -> None:
    def behave(job: Job) -> Outcome:
        if len([one for one in jobs(loop, "worker") if one.labels["task"] == "combined-run-1"]) == 1:
            raise Killed
        return write({"box.py": PUT})(job)

    loop = begin(write({"test_order.py": IN_ORDER}), **{"combined-run-1": behave})
    with pytest.raises(Killed):
        loop.session()
    loop.session()
    assert len(jobs(loop, "tester")) == 1
    assert proof_of(loop, "combined-run-1").level is Level.INDEPENDENT


@needs_sandbox
@pytest.mark.thorough
def test_what_lanes_have_merged_is_tested_together_in_the_run_s_own_tree(begin: Begin) -> None:
    loop = begin(write({"test_order.py": IN_ORDER}), kind=SideLoop)
    waits(loop.source, "3", "1", "2")

    async def work() -> None:
        assert isinstance(loop, SideLoop)
        async with loop.lanes() as (context, lanes):
            await run_side_by_side(context, (), Lanes(lanes.seats, lanes.open))
            loop.git("merge", "-q", loop.branch)
            await combine_tasks(context, (), Tally(context))

    asyncio.run(work())
    assert "failed after task 3" in said(loop)
    back = jobs(loop, "worker")[-1]
    assert (back.labels["task"], back.workspace) == ("combined-run-1", loop.repo)
    assert (loop.repo / "box.py").read_text() == PUT
    assert proof_of(loop, "combined-run-1").level is Level.INDEPENDENT


@needs_sandbox
@pytest.mark.thorough
def test_an_answer_continues_the_conversation_about_what_tasks_broke(begin: Begin) -> None:
    def ask(_job: Job) -> Outcome:
        return Outcome('{"question": "At which end?"}', session="talk-2")

    loop = begin(
        write({"test_order.py": IN_ORDER}), **{"combined-run-1": in_turn(ask, write({"box.py": PUT}))}
    )
    with pytest.raises(NeedsHuman):
        loop.session()

    async def answer() -> None:
        async with loop.context() as context:
            await context.journal.emit(TaskCommented("combined-run-1", "At the end.", "somebody"))

    asyncio.run(answer())
    loop.session()
    back = jobs(loop, "worker")[-1]
    assert back.session == "talk-2"
    assert "At the end." in back.prompt.text
    assert loop.view.tasks["combined-run-1"].state == "done"


def test_a_question_about_what_tasks_broke_is_answered(tmp_path: Path) -> None:
    place = Place.make(tmp_path)
    place.script('[[on]]\nwrite = { "f{task}" = "x" }\n')
    place.segue("run", "plan.md")
    begun = TaskStarted("combined-run-1", "Make task 2 fit 1")
    asked = TaskEnded("combined-run-1", False, f"{ASKS}At which end?")
    add_events(place.database, place.last_run(), [begun, asked])
    place.segue("task", "answer", "combined-run-1", "At the end.")
    (said,) = place.events("task.commented")
    assert said["task"] == "combined-run-1"
    add_events(place.database, place.last_run(), [begun, TaskEnded("combined-run-1", True)])
    refused = place.segue("task", "comment", "combined-run-1", "Once more.", code=None)
    assert "Comment on the task whose work it corrected" in refused.stderr


@needs_sandbox
@pytest.mark.thorough
def test_what_the_tasks_leave_open_stops_nobody(begin: Begin) -> None:
    guessed = IN_ORDER.replace("from taking import take", "from taking import grab as take")
    loop = begin(write({"test_order.py": guessed}))
    loop.session()
    assert "combined-run-1" not in loop.view.tasks
    assert "uses taking.grab, which no task names" in said(loop)


def task(key: str, story: str | None = None, done: bool = True, kind: TaskKind = TaskKind.BUILD) -> Task:
    status = TaskStatus.DONE if done else TaskStatus.PENDING
    return Task(key, key, key, status, story=story, kind=kind)


@pytest.mark.parametrize(
    ("tasks", "groups"),
    [
        ([task("1"), task("2")], {"run": ("1", "2")}),
        ([task("1"), task("2", done=False)], {}),
        ([task("1")], {}),
        ([task("1"), task("2", kind=TaskKind.DOCS)], {}),
        ([task("1", "US1"), task("2", "US1"), task("3", "US2", done=False)], {"us1": ("1", "2")}),
        ([task("1", "US1"), task("2", "US1")], {"us1": ("1", "2")}),
        (
            [task("1", "US1"), task("2", "US1"), task("3", "US 2"), task("4", "US 2")],
            {"us1": ("1", "2"), "us_2": ("3", "4"), "run": ("1", "2", "3", "4")},
        ),
        ([task("1"), task("2"), task("3", done=False, kind=TaskKind.HUMAN)], {"run": ("1", "2")}),
    ],
)
def test_tasks_are_tested_together_when_a_story_or_the_run_ends(
    tasks: list[Task], groups: dict[str, tuple[str, ...]]
) -> None:
    done = [one.key for one in tasks if one.status is TaskStatus.DONE]
    assert {group.name: group.keys for group in find_groups(tasks, done)} == groups


@given(st.data(), st.integers(1, 40))
def test_the_commit_that_broke_a_test_is_found(data: st.DataObject, last: int) -> None:
    begins = data.draw(st.integers(0, last - 1), label="passes from")
    broken = data.draw(st.integers(begins + 1, last), label="fails from")
    tried: list[int] = []

    async def passes(place: int) -> bool:
        tried.append(place)
        return begins <= place < broken

    found = asyncio.run(find_breaker(last, passes))
    assert len(tried) == len(set(tried)) <= 16 + 12
    if last < 16:
        assert found == broken
    else:  # a test that passed for a short time only, long ago, may count as one that never did
        assert found in (broken, None)
