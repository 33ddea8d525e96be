"""What runs, tasks and days may cost: enforced before a launch, and while one works."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from segue.agents.acp.lines import AcpLines
from segue.agents.acp.profiles import load_profiles
from segue.agents.claude.lines import ClaudeLines
from segue.agents.codex.lines import CodexLines
from segue.agents.local.launch import Reader
from segue.domain.errors import NeedsHuman
from segue.domain.events import AgentEnded, AgentUsage, BudgetPassed, Event
from segue.domain.job import Job, Mode
from segue.domain.outcome import Budget, Failure, FailureKind, Outcome, Scope, Usage
from segue.flow.agents import OverBudget
from segue.flow.context import Policy
from tests.agents.stand_in import ended
from tests.flow.loop import FunctionAgent, ListSource, Loop, edit, in_turn


def ends(loop: Loop) -> list[AgentEnded]:
    """How launches ended."""
    return [one.event for one in loop.events if isinstance(one.event, AgentEnded)]


def passed(loop: Loop) -> list[str]:
    """By how much caps were passed."""
    return [one.event.text for one in loop.events if isinstance(one.event, BudgetPassed)]


Line = Mapping[str, Any]


class Played(FunctionAgent):
    """An agent that prints what a program was seen to print, which its own reader reads."""

    def __init__(self, name: str, make: Callable[[], Reader], lines: Sequence[Line]) -> None:
        super().__init__(name, edit())
        self._make, self._lines = make, lines
        self.printed = 0

    async def run(self, job: Job) -> AsyncGenerator[Event | Outcome, None]:
        """Change a file and print; an adopted launch has ended."""
        self.jobs.append(job)
        if job.begun:
            return
        reader = self._make()
        self._behave(job)
        for line in self._lines:
            self.printed += 1
            for event in reader.read(json.dumps(line)) or ():
                yield event
            await asyncio.sleep(0)
        yield reader.outcome(ended(), 0.0)


def make_claude() -> Reader:
    return ClaudeLines(Mode.EDIT)


def make_acp(name: str) -> Callable[[], Reader]:
    return lambda: AcpLines(name, load_profiles()[name], Mode.EDIT)


def claude_says(number: int) -> Line:
    content = [{"type": "text", "text": "hm"}]
    usage = {"input_tokens": 1000, "output_tokens": 1}
    message = {"id": f"msg_{number}", "model": "opus", "content": content, "usage": usage}
    return {"type": "assistant", "message": message, "parent_tool_use_id": None}


CLAUDE_DONE: dict[str, Any] = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "All done.",
    "terminal_reason": "completed",
    "total_cost_usd": 0.46,
    "modelUsage": {"opus": {"inputTokens": 60_000, "outputTokens": 6_000}},
}
ONE_QWEN = {"type": "usage", "update": {"tokens": {"inputTokens": 1000, "outputTokens": 1}}}
AT_WORK: dict[str, tuple[Callable[[], Reader], Sequence[Line]]] = {
    "claude": (make_claude, [*map(claude_says, range(9)), CLAUDE_DONE]),
    "qwen": (make_acp("qwen"), [*[ONE_QWEN] * 9, {"type": "result", "stop_reason": "end_turn"}]),
}
"""Programs that tell what they use while they work."""
CODEX_USAGE = {"input_tokens": 66_000, "cached_input_tokens": 100, "output_tokens": 1_100}
AT_THE_END: dict[str, tuple[Callable[[], Reader], Sequence[Line]]] = {
    "codex": (
        lambda: CodexLines(Mode.EDIT),
        [
            {"type": "thread.started", "thread_id": "0199"},
            {"type": "item.completed", "item": {"id": "1", "type": "agent_message", "text": "All done."}},
            {"type": "turn.completed", "usage": CODEX_USAGE},
        ],
    ),
}
"""Programs that tell it when they are done."""


@pytest.mark.parametrize("name", AT_WORK)
def test_a_program_that_tells_what_it_uses_is_ended_at_once(tmp_path: Path, name: str) -> None:
    agent = Played(name, *AT_WORK[name])
    loop = Loop(tmp_path, ListSource("1"), [agent], caps={"task": Budget(tokens=2500)})
    with pytest.raises(NeedsHuman, match="ended at work: the cap of 2500 tokens per task"):
        loop.session()
    [end] = ends(loop)
    assert end.failure is not None
    assert (end.failure.kind, agent.printed) == (FailureKind.BUDGET, 3)
    assert loop.view.usage.tokens == 3003
    assert (loop.repo / "work.txt").exists(), "what it did is kept"


@pytest.mark.parametrize("name", AT_THE_END)
def test_after_a_program_that_tells_it_at_its_end_the_next_launch_is_refused(
    tmp_path: Path, name: str
) -> None:
    agent = Played(name, *AT_THE_END[name])
    loop = Loop(tmp_path, ListSource("1", "2"), [agent], budget=Budget(tokens=6000))
    with pytest.raises(
        OverBudget, match=r"the cap of 6000 tokens \(limits.tokens\) is used up: 67100 so far"
    ):
        loop.session()
    assert len(agent.jobs) == 1
    assert loop.view.tasks["1"].state == "done", "the work is not thrown away"
    assert passed(loop) == ["61,100 tokens more than the cap of 6,000 (limits.tokens)"]
    assert loop.view.tasks["1"].over_budget == passed(loop)[0]


def test_who_can_be_told_what_it_may_cost_is_told(tmp_path: Path) -> None:
    refused = {
        **CLAUDE_DONE,
        "is_error": True,
        "terminal_reason": "budget_exhausted",
        "total_cost_usd": 0.051,
    }
    agent = Played("claude", make_claude, [claude_says(1), refused])
    other = FunctionAgent("other", edit())
    caps: dict[Scope, Budget] = {"task": Budget(cost_usd=0.05), "day": Budget(cost_usd=7)}
    loop = Loop(tmp_path, ListSource("1"), [agent, other], caps=caps)
    with pytest.raises(NeedsHuman, match=r"the cap of \$0.05 per task \(limits.task.cost_usd\) is used up"):
        loop.session()
    assert [job.limits.cost_usd for job in agent.jobs] == [0.05]
    assert other.jobs == [], "it may not cost more with somebody else"


class Reporting(FunctionAgent):
    """An agent that reports what it uses while it works, and never ends by itself."""

    async def run(self, job: Job) -> AsyncGenerator[Event | Outcome, None]:
        """Work, and report more and more; an adopted launch has ended and tells what it used."""
        self.jobs.append(job)
        if job.begun:
            yield Outcome(exit_code=143, usage=Usage(200, 5, 2.0))
            return
        (job.workspace / "work.txt").write_text("half\n")
        for cost in (0.4, 0.8, 1.2):
            yield AgentUsage(int(cost * 100), 0, cost, live=True)
        await asyncio.Event().wait()


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
    assert (
        loop.view.tasks["2"].over_budget == "$0.05 more than the cap of $0.20 per task (limits.task.cost_usd)"
    )


def test_what_a_launch_used_that_was_ended_counts(tmp_path: Path) -> None:
    agent = Reporting("worker", edit())
    loop = Loop(tmp_path, ListSource("1"), [agent], caps={"day": Budget(cost_usd=1.0)})
    with pytest.raises(NeedsHuman, match=r"ended at work: the cap of \$1\.00 .* \$1\.20 so far. What it did"):
        loop.session()
    assert loop.view.usage == Usage(200, 5, 2.0), "it tells more at its end"
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


def test_earlier_runs_count_for_the_day(tmp_path: Path) -> None:
    agent = FunctionAgent("worker", edit())
    loop = Loop(tmp_path, ListSource("1"), [agent], caps={"day": Budget(cost_usd=0.2)})
    loop.session()
    loop.run_id, loop.source = "", ListSource("2")
    with pytest.raises(OverBudget, match=r"limits\.day\.cost_usd"):
        loop.session()
    assert len(agent.jobs) == 1
