"""What tasks, days and repositories may cost: enforced before a launch, and while one works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from segue.domain.errors import NeedsHuman
from segue.domain.events import AgentEnded, AgentUsage, Event
from segue.domain.job import Job
from segue.domain.outcome import Budget, Failure, FailureKind, Outcome, Scope, Usage
from segue.flow.agents import OverBudget
from segue.flow.context import Policy
from tests.flow.loop import FunctionAgent, ListSource, Loop, edit, in_turn

_CHECK = ("sh", "-c", "test $(wc -l < work.txt) -ge 3")


class Reporting(FunctionAgent):
    """An agent that reports what it uses while it works, and never ends by itself."""

    async def run(self, job: Job) -> AsyncGenerator[Event | Outcome, None]:
        """Work, and report more and more; an adopted launch has ended."""
        self.jobs.append(job)
        if job.begun:
            return
        (job.workspace / "work.txt").write_text("half\n")
        for cost in (0.4, 0.8, 1.2, 1.6):
            yield AgentUsage(int(cost * 100), 0, cost)
        await asyncio.Event().wait()


def ends(loop: Loop) -> list[AgentEnded]:
    """How launches ended."""
    return [one.event for one in loop.events if isinstance(one.event, AgentEnded)]


def test_the_cap_of_a_task_stops_that_task_alone(tmp_path: Path) -> None:
    agent = FunctionAgent("worker", in_turn(edit(), edit("b"), edit()))
    loop = Loop(
        *(tmp_path, ListSource("1", "2"), [agent]),
        caps={"task": Budget(cost_usd=0.2)},
        checks=(("sh", "-c", "test -e b"),),
        policy=Policy(continue_after_failure=True),
    )
    with pytest.raises(NeedsHuman, match=r"\$0.20 per task \(limits.task.cost_usd\) is used up: \$0.25"):
        loop.session()
    assert [job.labels["task"] for job in agent.jobs] == ["1", "2"]
    assert loop.view.tasks["2"].state == "done"


@pytest.mark.parametrize("scope", ["task", "day", "repository"])
def test_a_launch_is_ended_when_it_reports_more_than_is_left(tmp_path: Path, scope: Scope) -> None:
    agent = Reporting("worker", edit())
    loop = Loop(tmp_path, ListSource("1"), [agent], caps={scope: Budget(cost_usd=1.0)})
    with pytest.raises(NeedsHuman, match=r"ended at work: the cap of \$1\.00 .* \$1\.20 so far. What it did"):
        loop.session()
    [end] = ends(loop)
    assert end.failure is not None
    assert end.failure.kind is FailureKind.BUDGET
    assert loop.view.usage == Usage(120, 0, 1.2)
    assert (loop.repo / "work.txt").read_text() == "half\n"


def test_a_launch_is_ended_when_the_time_is_used_up(tmp_path: Path) -> None:
    agent = Reporting("worker", edit())
    loop = Loop(tmp_path, ListSource("1"), [agent], caps={"task": Budget(seconds=0.2)})
    with pytest.raises(NeedsHuman, match=r"of work per task \(limits.task.seconds\) is used up"):
        loop.session()


class ToldLate(FunctionAgent):
    """An agent of which only its end tells what it has used."""

    async def run(self, job: Job) -> AsyncGenerator[Event | Outcome, None]:
        """Never end by itself; an adopted launch has ended."""
        self.jobs.append(job)
        if not job.begun:
            await asyncio.Event().wait()
        yield Outcome(exit_code=143, usage=Usage(50, 5, 0.1))


def test_what_a_launch_used_that_was_ended_counts(tmp_path: Path) -> None:
    agent = ToldLate("worker", edit())
    loop = Loop(tmp_path, ListSource("1"), [agent], caps={"task": Budget(seconds=0.2)})
    with pytest.raises(NeedsHuman, match=r"limits.task.seconds"):
        loop.session()
    assert loop.view.usage == Usage(50, 5, 0.1)
    assert ends(loop)[0].exit_code == 143
    assert [job.begun for job in agent.jobs] == [False, True]


class ToldBefore(FunctionAgent):
    """An agent that is ended because it hangs, and has told before what it used."""

    async def run(self, job: Job) -> AsyncGenerator[Event | Outcome, None]:
        """Report, and hang."""
        self.jobs.append(job)
        yield AgentUsage(60, 7, 0.2, 10)
        yield Outcome(failure=Failure(FailureKind.HANG, "it printed nothing for 15 s"))


def test_what_a_launch_told_before_it_hung_counts(tmp_path: Path) -> None:
    loop = Loop(tmp_path, ListSource("1"), [ToldBefore("worker", edit())])
    with pytest.raises(NeedsHuman, match="printed nothing"):
        loop.session()
    assert loop.view.usage == Usage(70, 7, 0.2, 10)


@pytest.mark.parametrize("scope", ["day", "repository"])
def test_earlier_runs_count_for_the_day_and_the_repository(tmp_path: Path, scope: Scope) -> None:
    agent = FunctionAgent("worker", edit())
    loop = Loop(tmp_path, ListSource("1"), [agent], caps={scope: Budget(cost_usd=0.2)})
    loop.session()
    loop.run_id, loop.source = "", ListSource("2")
    with pytest.raises(OverBudget, match=f"limits.{scope}.cost_usd"):
        loop.session()
    assert len(agent.jobs) == 1
