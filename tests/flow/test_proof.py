"""What a task ends with: its proof, what is required of it, and effects that are repeated alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from segue.domain.errors import CheckUnready, NeedsHuman, Unfinished
from segue.domain.events import TaskEnded
from segue.domain.job import Job
from segue.domain.outcome import FailureKind, Outcome
from segue.domain.proof import (
    ChangedTest,
    CheckResult,
    CheckState,
    HowSettled,
    Level,
    Seal,
)
from segue.domain.task import TaskKind
from segue.flow.context import Policy
from segue.flow.proving import level_of
from tests.flow.loop import FunctionAgent, ListSource, Loop, edit, fail, in_turn


def loop(tmp_path: Path, *keys: str, **more: object) -> Loop:
    agent = FunctionAgent("function", edit())
    return Loop(tmp_path, ListSource(*(keys or ("1",))), [agent], **more)  # type: ignore[arg-type]


def proofs(run: Loop) -> list[Level | None]:
    ends = [one.event for one in run.events if isinstance(one.event, TaskEnded)]
    return [end.proof.level if end.proof else None for end in ends]


def test_without_any_verification_a_task_is_changed_and_no_more(tmp_path: Path) -> None:
    run = loop(tmp_path)
    run.session()
    assert proofs(run) == [Level.CHANGED]


def test_a_check_that_passes_takes_it_further(tmp_path: Path) -> None:
    run = loop(tmp_path, checks=(("test", "-f", "work.txt"),))
    run.session()
    assert proofs(run) == [Level.CHECKED]


def test_a_level_that_is_required_and_not_reached_needs_a_human(tmp_path: Path) -> None:
    run = loop(tmp_path, policy=Policy(require=Level.TESTED), checks=(("test", "-f", "work.txt"),))
    with pytest.raises(NeedsHuman, match="`checked`, but `tested` is required: no test fails without"):
        run.session()
    assert proofs(run) == [Level.CHECKED], "what was measured is kept for a person who accepts it"
    assert run.view.tasks["1"].proof is None


def test_a_level_that_no_check_can_show_is_refused_before_the_first_launch(tmp_path: Path) -> None:
    run = loop(tmp_path, policy=Policy(require=Level.TESTED), checks=(("true",),), sealed=True)
    with pytest.raises(CheckUnready, match="cannot be reached: `true` reports no tests") as caught:
        run.session()
    assert run.agents[0].jobs == []
    assert "checks = " in (caught.value.hint or "")


def test_a_task_that_only_verifies_runs_what_it_names_and_needs_no_change(tmp_path: Path) -> None:
    run = Loop(tmp_path, ListSource("1"), [FunctionAgent("idle", lambda _job: Outcome("All fine."))])
    text = "Run `ls .git` and look at the result."
    run.source.found["1"] = replace(run.source.found["1"], text=text, kind=TaskKind.VERIFY_ONLY)
    run.session()
    assert proofs(run) == [Level.CHECKED]
    run = Loop(tmp_path / "other", ListSource("1"), [FunctionAgent("idle", lambda _job: Outcome("Fine."))])
    run.source.found["1"] = replace(
        run.source.found["1"], text=text.replace(".git", "missing"), kind=TaskKind.VERIFY_ONLY
    )
    with pytest.raises(NeedsHuman, match="checks failed"):
        run.session()


def test_a_refused_commit_is_made_again_without_the_agent(tmp_path: Path) -> None:
    run = loop(tmp_path)
    lock = run.repo / ".git" / "refs" / "heads" / "main.lock"
    lock.touch()
    with pytest.raises(Unfinished, match="git commit failed"):
        run.session()
    assert run.view.tasks["1"].state == "needs_human"
    lock.unlink()
    run.session()
    assert len(run.agents[0].jobs) == 1
    assert run.git("show", "HEAD:work.txt") == "1"


def test_an_agent_whose_verdict_cannot_be_used_is_asked_again_alone(tmp_path: Path) -> None:
    from segue.domain.job import Role
    from segue.judges.verdict import read_verdict

    answers = ["nonsense", "nonsense", "nonsense"]

    def judge(job: Job) -> Outcome:
        return Outcome(answers.pop(0) if answers else _praise(job))

    judging = FunctionAgent("judge", judge)
    run = loop(tmp_path, phases=("execute", "check", "verify"), roles={Role.VERIFY: [judging]})
    run.agent_judge = read_verdict
    with pytest.raises(Unfinished, match="no verdict"):
        run.session()
    asked = len(judging.jobs)
    run.session()
    assert len(run.agents[0].jobs) == 1
    assert len(judging.jobs) > asked
    proof = run.view.tasks["1"].proof
    assert proof is not None
    assert (proof.level, proof.judged) == (Level.CHANGED, True)


def _praise(job: Job) -> str:
    del job
    return '{"criteria": [{"key": "task", "met": true, "evidence": "+1"}], "reasoning": "fine"}'


ASKED = HowSettled.ASKED
PASSED = CheckResult("pytest", 0, "", CheckState.PASSED, seal=Seal.SEALED)
checks = st.lists(
    st.builds(
        CheckResult,
        st.just("pytest"),
        st.just(0),
        st.just(""),
        st.sampled_from([CheckState.PASSED, CheckState.NOTHING]),
        proved=st.sampled_from([(), ("a",)]),
        noticed=st.sampled_from([None, True, False]),
        changed_tests=st.sampled_from([(), (ChangedTest("t.py"),), (ChangedTest("t.py", how=ASKED),)]),
        flaky=st.sampled_from([(), ("a",)]),
        blunt=st.sampled_from(["", "it asserts nothing"]),
        cap=st.sampled_from(["", "it needs a file of the task"]),
        seal=st.sampled_from(Seal),
    ),
    max_size=3,
)


@given(checks, st.booleans(), st.booleans())
def test_levels_say_no_more_than_was_seen(found: list[CheckResult], unseen: bool, inert: bool) -> None:
    level, _ = level_of(found, unseen=unseen, inert=inert)
    ran = [one for one in found if one.state is CheckState.PASSED]
    if level.proven:
        assert any(one.exercises for one in ran)
        assert any(one.seal is not Seal.NONE for one in ran)
    if level.rank >= Level.TESTED.rank:
        assert any(one.proved and one.seal is not Seal.NONE for one in ran)
        assert (level is Level.INDEPENDENT) == unseen
        assert not any(one.unsettled for one in ran if one.seal is not Seal.NONE)
    if inert and level.proven:
        assert any(one.proving for one in ran)
    more, _ = level_of([*found, PASSED], unseen=unseen, inert=inert)
    assert more.rank >= level.rank, "another check that passes takes nothing away"


def test_a_check_that_a_comment_turned_green_shows_nothing() -> None:
    lint = CheckResult("lint", 0, "", CheckState.PASSED, seal=Seal.SEALED, repaired=("lint",))
    assert [level_of([lint], inert=True, mute=mute)[0] for mute in (True, False)] == [
        Level.CHANGED,
        Level.CHECKED,
    ]


def test_a_lost_launch_does_not_use_up_the_only_attempt(tmp_path: Path) -> None:
    agent = FunctionAgent("unlucky", in_turn(fail(FailureKind.LOST), edit()))
    run = Loop(tmp_path, ListSource("1"), [agent])
    run.session()
    assert len(agent.jobs) == 2
    always = FunctionAgent("gone", fail(FailureKind.LOST))
    run = Loop(tmp_path / "other", ListSource("1"), [always])
    with pytest.raises(NeedsHuman):
        run.session()
    assert len(always.jobs) == 4, "but nobody is launched for ever"
