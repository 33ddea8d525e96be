"""Endings that another agent may do better, and those that only a person can."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from segue.domain.errors import NeedsHuman
from segue.domain.events import AgentReplaced
from segue.domain.graph import Dependency, WaitKind
from segue.domain.job import Job
from segue.domain.outcome import Failure, FailureKind, Outcome
from segue.flow.context import Policy
from segue.ports import Capabilities
from tests.flow.loop import FunctionAgent, ListSource, Loop, edit, fail, in_turn

GOES_ON = Policy(continue_after_failure=True)
FOLLOWS = Capabilities(plan_mode=True, ask_mode=True, follow_up=True)
MAY_DO_BETTER = [
    FailureKind.REFUSED,
    FailureKind.CONTEXT,
    FailureKind.HANG,
    FailureKind.UNKNOWN,
]


def say(text: str, doubt: Failure | None = None) -> Outcome:
    return Outcome(text, doubt=doubt)


@pytest.mark.parametrize("kind", MAY_DO_BETTER)
def test_the_next_agent_takes_over(tmp_path: Path, kind: FailureKind) -> None:
    first, second = FunctionAgent("one", fail(kind)), FunctionAgent("two", edit())
    loop = Loop(tmp_path, ListSource("1", "2"), [first, second])
    loop.session()
    (*_, switch) = [event.event for event in loop.events if isinstance(event.event, AgentReplaced)]
    assert (switch.agent, switch.next, switch.kind) == ("one", "two", kind)
    assert len(second.jobs) == 2
    # Only who cannot work at all is not asked about the next task.
    assert len(first.jobs) == (1 if kind is FailureKind.HANG else 2)


def test_no_agent_is_left_when_one_refuses_and_the_next_one_rests(tmp_path: Path) -> None:
    first, second = (
        FunctionAgent("one", fail(FailureKind.REFUSED)),
        FunctionAgent("two", fail(FailureKind.HANG)),
    )
    loop = Loop(tmp_path, ListSource("1"), [first, second], attempts=3)
    with pytest.raises(NeedsHuman, match="hang!"):
        loop.session()
    assert len(first.jobs) == 1


@pytest.mark.parametrize("kind", [FailureKind.CRASH, FailureKind.TIMEOUT, FailureKind.TAMPERED])
def test_work_that_failed_by_itself_stays_with_its_agent(tmp_path: Path, kind: FailureKind) -> None:
    second = FunctionAgent("two", edit())
    loop = Loop(tmp_path, ListSource("1"), [FunctionAgent("one", fail(kind)), second])
    with pytest.raises(NeedsHuman):
        loop.session()
    assert second.jobs == []


def test_an_agent_that_changes_nothing_is_not_the_last_word(tmp_path: Path) -> None:
    first = FunctionAgent("one", lambda _job: say("I can't help with that."))
    loop = Loop(tmp_path, ListSource("1"), [first, FunctionAgent("two", edit())])
    loop.session()
    assert loop.view.tasks["1"].state == "done"


def test_a_conversation_that_is_too_long_is_begun_anew_before_another_agent_is_asked(tmp_path: Path) -> None:
    def behave(job: Job) -> Outcome:
        if job.session:
            return fail(FailureKind.CONTEXT)(job)
        edit()(job)
        return Outcome("Done.", session="s1")

    first, second = FunctionAgent("one", behave, FOLLOWS), FunctionAgent("two", edit())
    twice = ("sh", "-c", "test $(wc -l < work.txt) -ge 2")
    loop = Loop(tmp_path, ListSource("1"), [first, second], checks=(twice,))
    loop.session()
    assert [job.session for job in first.jobs] == [None, "s1", None]
    assert second.jobs == []


def test_an_error_as_the_last_word_is_that_error(tmp_path: Path) -> None:
    overload = Failure(FailureKind.OUTAGE, "API Error: 529 Overloaded")
    first = FunctionAgent("one", lambda _job: say("API Error: 529 Overloaded", overload))
    loop = Loop(tmp_path, ListSource("1"), [first])
    with pytest.raises(NeedsHuman, match="529 Overloaded"):
        loop.session()
    other = Loop(tmp_path / "other", ListSource("1"), [first, FunctionAgent("two", edit())])
    other.session()
    (switch,) = [event.event for event in other.events if isinstance(event.event, AgentReplaced)]
    assert switch.kind is FailureKind.OUTAGE


def test_words_about_an_error_do_not_count_where_work_was_done(tmp_path: Path) -> None:
    def behave(job: Job) -> Outcome:
        edit()(job)
        return say("Error: 529 is now handled", Failure(FailureKind.OUTAGE, "Error: 529"))

    loop = Loop(tmp_path, ListSource("1"), [FunctionAgent("one", behave)])
    loop.session()
    assert loop.view.tasks["1"].state == "done"


def test_a_question_is_asked_of_a_person_not_of_another_agent(tmp_path: Path) -> None:
    first = FunctionAgent("one", in_turn(lambda _job: say("Which database should I use?"), edit()))
    second = FunctionAgent("two", edit())
    loop = Loop(tmp_path, ListSource("1"), [first, second], attempts=2)
    with pytest.raises(NeedsHuman, match="The agent asks: Which database should I use") as caught:
        loop.session()
    assert "segue task say 1" in (caught.value.hint or "")
    assert (len(first.jobs), second.jobs) == (1, [])


def cannot(file: str, quote: str) -> Outcome:
    cited = {"file": file, "line": 1, "quote": quote}
    return say(f"I tried.\n{json.dumps({'cannot': 'the test asks for the opposite', 'evidence': [cited]})}")


def test_evidence_that_is_not_there_is_sent_back_once(tmp_path: Path) -> None:
    lazy = FunctionAgent("one", in_turn(lambda _job: cannot("tests/none.py", "x"), edit()))
    loop = Loop(tmp_path, ListSource("1"), [lazy])
    loop.session()
    assert len(lazy.jobs) == 2
    assert "there is no file tests/none.py" in lazy.jobs[1].prompt.text
    stubborn = FunctionAgent("one", lambda _job: cannot("tests/none.py", "x"))
    other = Loop(tmp_path / "other", ListSource("1"), [stubborn])
    with pytest.raises(NeedsHuman, match="there is no file"):
        other.session()
    assert len(stubborn.jobs) == 2


@pytest.mark.parametrize("file", ["test_a.py", "./notes.md"])
def test_what_an_agent_wrote_itself_shows_nothing(tmp_path: Path, file: str) -> None:
    def behave(job: Job) -> Outcome:
        (job.workspace / "notes.md").write_text("impossible\n")
        (job.workspace / "test_a.py").write_text("assert one() == 1\nassert one() == 2  # impossible\n")
        return cannot(file, "impossible")

    agent = FunctionAgent("one", in_turn(behave, edit()))
    loop = Loop(tmp_path, ListSource("1"), [agent])
    (loop.repo / "test_a.py").write_text("assert one() == 1\n")
    loop.git("add", ".")
    loop.git("commit", "-qm", "Begin")
    loop.session()
    assert (len(agent.jobs), loop.view.tasks["1"].state) == (2, "done")

    def honest(job: Job) -> Outcome:
        behave(job)
        return cannot("test_a.py", "assert one() == 1")

    other = Loop(tmp_path / "other", ListSource("1"), [FunctionAgent("one", honest)])
    (other.repo / "test_a.py").write_text("assert one() == 1\n")
    other.git("add", ".")
    other.git("commit", "-qm", "Begin")
    with pytest.raises(NeedsHuman, match="cannot be done"):
        other.session()


TASK = "Round down to cents, and round half a cent up. Use the `fast` way. Publish it."
TEST = "assert total([]) == 1 and total([]) == 2\n"
TWINS: dict[str, dict[str, Any]] = {
    "a test demands the impossible": {
        "cannot": "total([]) cannot be both",
        "evidence": [{"file": "test_total.py", "line": 1, "quote": "== 1 and total([]) == 2"}],
    },
    "a credential is missing": {
        "cannot": "there is no token for the registry",
        "evidence": [{"quote": "Publish it"}, {"file": "publish.sh", "quote": "$REGISTRY_TOKEN"}],
    },
    "a word is unclear": {"question": "What is the `fast` way: integers, or rounding at the end?"},
}


@pytest.mark.parametrize("twin", TWINS)
def test_an_honest_exit_blocks_the_task_and_what_needs_it_alone(tmp_path: Path, twin: str) -> None:
    ends = in_turn(lambda _job: say(f"I looked.\n{json.dumps(TWINS[twin])}"), edit())
    source = ListSource("1", "2", "3")
    source.found["1"] = replace(source.found["1"], text=TASK)
    source.found["2"] = replace(
        source.found["2"], depends_on=(Dependency(("1",), WaitKind.STATED, "it says so"),)
    )
    loop = Loop(tmp_path, source, [FunctionAgent("one", ends)], policy=GOES_ON)
    (loop.repo / "test_total.py").write_text(TEST)
    (loop.repo / "publish.sh").write_text("curl -H $REGISTRY_TOKEN\n")
    loop.git("add", ".")
    loop.git("commit", "-qm", "Begin")
    with pytest.raises(NeedsHuman) as caught:
        loop.session()
    said = TWINS[twin].get("cannot") or TWINS[twin]["question"]
    assert str(said) in caught.value.message
    assert {key: task.state for key, task in loop.view.tasks.items()} == {
        "1": "needs_human",
        "2": "blocked",
        "3": "done",
    }


def test_a_structured_question_counts_although_something_was_changed(tmp_path: Path) -> None:
    def behave(job: Job) -> Outcome:
        edit()(job)
        return say('Half is done.\n{"question": "Euro or dollar?"}')

    loop = Loop(tmp_path, ListSource("1"), [FunctionAgent("one", behave)])
    with pytest.raises(NeedsHuman, match="The agent asks: Euro or dollar"):
        loop.session()


def test_a_failed_task_that_left_nothing_does_not_stop_the_others(tmp_path: Path) -> None:
    def all_but_one(job: Job) -> Outcome:
        return say("I could not.") if job.labels["task"] == "1" else edit()(job)

    agent = FunctionAgent("one", all_but_one)
    loop = Loop(tmp_path, ListSource("1", "2", "3"), [agent], policy=GOES_ON)
    with pytest.raises(NeedsHuman, match="Task 1 needs a human"):
        loop.session()
    assert {key: task.state for key, task in loop.view.tasks.items()} == {
        "1": "needs_human",
        "2": "done",
        "3": "done",
    }
    # It begins where the others ended: their work is not taken for its own.
    with pytest.raises(NeedsHuman, match="nothing in the work tree or on the branch has changed"):
        loop.session()
    agent._behave = edit()
    loop.session()
    assert loop.view.tasks["1"].state == "done"
    assert loop.git("show", "--format=", "--name-only", "HEAD") == "work.txt"


def test_what_a_failed_task_left_is_not_committed_with_the_next_one(tmp_path: Path) -> None:
    def half(job: Job) -> Outcome:
        edit()(job)
        return fail(FailureKind.CRASH)(job)

    agent = FunctionAgent("one", in_turn(half, edit()))
    loop = Loop(tmp_path, ListSource("1", "2"), [agent], policy=GOES_ON)
    with pytest.raises(NeedsHuman, match="Task 1 needs a human") as caught:
        loop.session()
    assert loop.view.tasks["2"].state == "done"
    assert loop.git("show", "HEAD:work.txt") == "2"
    assert str(loop.view.tasks["1"].kept) in (caught.value.kept or "")


def test_the_run_stops_when_nobody_can_work_or_as_many_failed_as_may(tmp_path: Path) -> None:
    limited = FunctionAgent("one", fail(FailureKind.USAGE_LIMIT))
    with pytest.raises(NeedsHuman, match="No other task was begun: no agent can work now"):
        Loop(tmp_path / "a", ListSource("1", "2"), [limited], policy=GOES_ON).session()
    lazy = FunctionAgent("one", lambda _job: say("No."))
    most = Policy(continue_after_failure=True, max_failures=3)
    with pytest.raises(NeedsHuman, match="3 tasks need a human"):
        Loop(tmp_path / "b", ListSource(*"12345"), [lazy], policy=most).session()
    assert (len(limited.jobs), len(lazy.jobs)) == (1, 3)


def test_a_commit_without_files_is_no_change(tmp_path: Path) -> None:
    def behave(job: Job) -> Outcome:
        subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", "x"], cwd=job.workspace, check=True)
        return say("All is done.")

    loop = Loop(tmp_path, ListSource("1"), [FunctionAgent("one", behave)])
    with pytest.raises(NeedsHuman, match="has changed"):
        loop.session()
