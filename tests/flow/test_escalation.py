"""Escalation by proof: whoever comes next in the chain takes over when the work is refused."""

from pathlib import Path

import pytest

from segue.domain.errors import NeedsHuman
from segue.domain.events import AgentChosen, AgentReplaced
from segue.domain.job import Job
from segue.domain.outcome import FailureKind, Outcome, Usage
from segue.domain.task import TaskKind
from segue.flow.context import Policy
from tests.flow.loop import Behaviour, FunctionAgent, ListSource, Loop, fail

_CHECK = ("sh", "-c", "grep -q right work.txt || { echo the answer is wrong; exit 1; }")


def write(word: str) -> Behaviour:
    """An agent that writes one word, and says so."""

    def behave(job: Job) -> Outcome:
        (job.workspace / "work.txt").write_text(f"{word} {job.labels['task']}\n")
        return Outcome(f"I wrote {word}.", usage=Usage(10, 5, 0.25))

    return behave


def choices(loop: Loop) -> list[tuple[str, str, str]]:
    """Who was chosen, in place of whom, and why."""
    events = [one.event for one in loop.events if isinstance(one.event, AgentChosen)]
    return [(event.before, event.agent, event.reason) for event in events]


def test_whose_work_is_refused_gives_way_to_the_next(tmp_path: Path) -> None:
    agents = [FunctionAgent(*one) for one in (("cheap", write("wrong")), ("strong", write("right")))]
    loop = Loop(tmp_path, ListSource("1"), agents, checks=(_CHECK,), policy=Policy(escalate=True))
    loop.session()
    assert [len(agent.jobs) for agent in agents] == [1, 1]
    first, second = choices(loop)
    assert first == ("", "cheap", "the first of the chain")
    assert second[:2] == ("cheap", "strong")
    assert "exit code 1" in second[2]
    told = agents[1].jobs[0].prompt.text
    assert "- cheap: " in told
    assert "It said: I wrote wrong." in told


def test_nothing_escalates_unless_the_chain_says_so(tmp_path: Path) -> None:
    agents = [FunctionAgent("cheap", write("wrong")), FunctionAgent("strong", write("right"))]
    loop = Loop(tmp_path, ListSource("1"), agents, checks=(_CHECK,))
    with pytest.raises(NeedsHuman):
        loop.session()
    assert not agents[1].jobs
    assert not choices(loop)


def test_a_limit_is_no_refusal(tmp_path: Path) -> None:
    agents = [FunctionAgent("cheap", fail(FailureKind.USAGE_LIMIT)), FunctionAgent("strong", write("right"))]
    loop = Loop(tmp_path, ListSource("1"), agents, checks=(_CHECK,), policy=Policy(escalate=True))
    loop.session()
    assert [choice[:2] for choice in choices(loop)] == [("", "cheap")]
    replaced = [one.event for one in loop.events if isinstance(one.event, AgentReplaced)]
    assert [(event.agent, event.next) for event in replaced] == [("cheap", "strong")]


def test_the_stronger_one_is_named_for_a_kind_of_task(tmp_path: Path) -> None:
    cheap, strong, other = (
        FunctionAgent("cheap", write("wrong")),
        FunctionAgent("strong", write("right")),
        FunctionAgent("other", write("right")),
    )
    stronger = {TaskKind.BUILD: [strong], TaskKind.DOCS: [other]}
    loop = Loop(tmp_path, ListSource("1"), [cheap], checks=(_CHECK,), stronger=stronger)
    loop.session()
    assert (len(strong.jobs), len(other.jobs)) == (1, 0)


def test_a_failed_task_begins_again_with_somebody_stronger(tmp_path: Path) -> None:
    agents = [FunctionAgent("cheap", write("wrong")), FunctionAgent("strong", write("right"))]
    policy = Policy(escalate=True, resolutions=0)
    loop = Loop(tmp_path, ListSource("1"), agents, checks=(_CHECK,), policy=policy)
    with pytest.raises(NeedsHuman):
        loop.session()
    loop.resumed_by_person = True
    loop.session()
    assert [len(agent.jobs) for agent in agents] == [1, 1]
    assert choices(loop)[-1][1:] == ("strong", "earlier attempts failed")
    assert "checks failed" in agents[1].jobs[0].prompt.text


def test_the_choice_is_kept_when_the_process_dies_between(tmp_path: Path) -> None:
    """The stronger agent is killed with Segue; the next session asks the same one again, and says it once."""

    class Killed(BaseException):
        """Ends the process."""

    def die(_job: Job) -> Outcome:
        raise Killed

    agents = [FunctionAgent("cheap", write("wrong")), FunctionAgent("strong", die)]
    loop = Loop(tmp_path, ListSource("1"), agents, checks=(_CHECK,), policy=Policy(escalate=True))
    with pytest.raises(Killed):
        loop.session()
    agents[1]._behave = write("right")
    loop.session()
    assert [len(agent.jobs) for agent in agents] == [1, 2]
    assert [choice[1] for choice in choices(loop)] == ["cheap", "strong"]
