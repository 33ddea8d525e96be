"""The checks before the first launch: once, beside it where they take long, and never in vain."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from segue.domain.errors import CheckUnready
from segue.domain.events import BaseChecked, CheckRun, NoticeGiven, PromptSent
from segue.domain.job import Job
from segue.domain.outcome import Outcome
from segue.domain.proof import BaseCheck, BaseState, KnownFailures
from segue.domain.task import Task
from segue.flow.survey import allow_later, asks_for_all, ends_in_time, is_asked_for
from tests.flow.loop import FunctionAgent, ListSource, Loop, edit

CHECK = (("true",),)


class Desk:
    """Answers for the checks, and knows what was asked."""

    def __init__(self, *found: BaseCheck) -> None:
        self.found = list(found) or [BaseCheck("true", BaseState.GREEN)]
        self.asked: list[str] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(self, argv: Sequence[str], base: str) -> BaseCheck:
        self.asked.append(base)
        await self.may_answer.wait()
        return self.found.pop(0) if len(self.found) > 1 else self.found[0]


def loop(tmp_path: Path, desk: Desk, *keys: str, **more: object) -> Loop:
    agent = FunctionAgent("function", edit())
    source = ListSource(*(keys or ("1",)))
    return Loop(tmp_path, source, [agent], checks=CHECK, survey=desk, **more)  # type: ignore[arg-type]


def test_the_checks_are_asked_once_before_the_first_launch(tmp_path: Path) -> None:
    desk = Desk()
    run = loop(tmp_path, desk, "1", "2")
    start = run.git("rev-parse", "HEAD")
    run.session()
    assert desk.asked == [start]
    kinds = [type(one.event) for one in run.events]
    assert kinds.index(BaseChecked) < kinds.index(PromptSent)


def test_what_takes_long_runs_beside_the_first_launch_and_is_awaited_by_its_check(tmp_path: Path) -> None:
    desk = Desk()
    desk.may_answer.clear()

    def behave(job: Job) -> Outcome:
        desk.may_answer.set()
        return edit()(job)

    run = Loop(tmp_path, ListSource("1"), [FunctionAgent("f", behave)], checks=CHECK, survey=desk, patience=0)
    run.session()
    kinds = [type(one.event) for one in run.events]
    assert kinds.index(PromptSent) < kinds.index(BaseChecked) < kinds.index(CheckRun)


def test_nobody_is_launched_before_a_check_is_known_to_end(tmp_path: Path) -> None:
    long = BaseCheck(
        "true", BaseState.UNREADY, reason="it took longer than check_timeout = 9 s", too_long=True
    )
    desk = Desk(long, BaseCheck("true", BaseState.GREEN, seconds=3.0))
    run = loop(tmp_path, desk, patience=0, timed=False)
    with pytest.raises(CheckUnready, match="does not end: it took longer than check_timeout") as refused:
        run.session()
    assert "Raise check_timeout" in refused.value.hint
    assert run.agents[0].jobs == []
    run.session()
    kinds = [type(one.event) for one in run.events]
    assert (
        kinds.index(BaseChecked)
        < kinds.index(NoticeGiven, kinds.index(BaseChecked))
        < kinds.index(PromptSent)
    )
    with run.store() as store:
        known = [
            (limit, ends_in_time(store, "list", ["true", *more], limit))
            for limit, more in ((600, ()), (5, ()), (600, ("false",)))
        ]
    assert known == [(600, True), (5, False), (600, False)], "it is known from this run"


def test_a_check_that_cannot_start_is_asked_again_when_the_run_is_resumed(tmp_path: Path) -> None:
    unready = BaseCheck("true", BaseState.UNREADY, reason="no such program", output="sh: lint9: not found")
    desk = Desk(unready, BaseCheck("true", BaseState.GREEN))
    run = loop(tmp_path, desk)
    with pytest.raises(CheckUnready, match="cannot start: no such program") as refused:
        run.session()
    assert "sh: lint9: not found" in refused.value.message
    assert refused.value.kept == "No agent was launched."
    assert run.agents[0].jobs == []
    run.session()
    assert len(desk.asked) == 2
    assert [job.labels["task"] for job in run.agents[0].jobs] == ["1"]


def test_another_session_believes_what_is_journalled(tmp_path: Path) -> None:
    desk = Desk(BaseCheck("true", BaseState.RED, 2, ("a::test_x",)))
    run = loop(tmp_path, desk)
    run.session()
    run.source.reopen("1")
    run.git("reset", "--hard", "--quiet", "HEAD~1")
    run.session()
    assert len(desk.asked) == 1
    assert run.view.before.of("true") == KnownFailures(frozenset({"a::test_x"}))


@pytest.mark.parametrize(
    ("text", "missing", "allowed"),
    [
        ("Add a test for add.", ("test",), False),
        ("Let `make test` run everything.", ("test",), True),
        ("Create the package shop.", ("shop",), True),
        ("Create workshops.", ("shop",), False),
    ],
)
def test_a_task_that_names_what_is_missing_may_add_it(
    text: str, missing: tuple[str, ...], allowed: bool
) -> None:
    check = BaseCheck("make test", BaseState.UNREADY, reason="No rule", missing=missing)
    found = allow_later(check, (), [Task("1", "Title", text)])
    assert (found.state is BaseState.RED) is allowed


@pytest.mark.parametrize(
    ("test", "text", "asked"),
    [
        ("tests/test_shop.py::test_large_discount", "Implement discount; see tests/test_shop.py.", True),
        ("tests/test_shop.py::test_rounding", "Implement discount; see tests/test_shop.py.", False),
        ("tests/test_shop.py::test_rounding", "Make test_rounding pass.", True),
        ("tests/test_tax.py::test_zero", "tests/test_tax.py says what is wanted.", True),
        ("make lint", "Let `make lint` pass.", True),
    ],
)
def test_a_red_test_that_a_task_is_about_must_pass(test: str, text: str, asked: bool) -> None:
    assert is_asked_for(test, ("tests/test_tax.py",), text) is asked


@pytest.mark.parametrize(
    ("text", "all_of_them"),
    [
        ("Run the test suite and verify that all tests pass.", True),
        ("Check that the tests still pass.", True),
        ("Run the tests and report what they print.", False),
        ("Run the tests. The upload must pass the gate.", False),
    ],
)
def test_who_verifies_that_all_tests_pass_means_each(text: str, all_of_them: bool) -> None:
    assert asks_for_all(text) is all_of_them


def test_the_users_word_is_enough(tmp_path: Path) -> None:
    check = BaseCheck("make test", BaseState.UNREADY, reason="No rule")
    assert allow_later(check, ("make *",), []).known == {"make test"}
