"""Both agents keep the promises of their socket, and the suite sees when one does not."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from segue.domain.event import Event, EventType

from segue.agents.command import CommandAgent, CommandOptions
from segue.agents.scripted.agent import ScriptedAgent, ScriptedOptions
from segue.conformance.agent import check_agent
from segue.domain.job import Job, Limits
from segue.domain.outcome import Outcome
from segue.domain.task import Task
from segue.ports import Agent, Capabilities, Installation, Problem
from segue.prompts.task import execute_prompt
from segue.system.process.processes import Processes
from segue.system.redact import Redactor

PROMPT = execute_prompt(Task("1", "Write a file", ""), "")


def command(code: str) -> Callable[[Processes], Agent]:
    options = CommandOptions(argv=[sys.executable, "-c", code])
    return lambda processes: CommandAgent(options, processes, Redactor([]))


def scripted(script: Path | None) -> Callable[[Processes], Agent]:
    return lambda processes: ScriptedAgent(ScriptedOptions(script=script), processes, Redactor([]))


def test_the_scripted_agent_conforms(tmp_path: Path) -> None:
    hang = tmp_path / "hang.toml"
    hang.write_text("[[on]]\norphan = true\nhang = true\n")
    check_agent(scripted(None), PROMPT, hangs=scripted(hang))


def test_the_command_agent_conforms() -> None:
    work = "open('made', 'a').write('x'); print('made it')"
    check_agent(command(work), PROMPT, hangs=command("import time; time.sleep(600)"))


class Broken:
    """An agent that can be made to break one promise at a time."""

    def __init__(self, agent: Agent, flaw: str) -> None:
        self._agent = agent
        self._flaw = flaw
        self._launches = 0
        self.name = "broken"
        self.can = Capabilities(edits=1) if flaw == "capability" else agent.can  # type: ignore[arg-type]
        if flaw == "declared plan":
            self.can = replace(agent.can, plan_mode=True)

    def check(self) -> list[Problem]:
        return [Problem("it is broken")] if self._flaw == "check" else []

    def installation(self) -> Installation:
        return Installation(version=3) if self._flaw == "version" else Installation()  # type: ignore[arg-type]

    async def run(self, job: Job) -> AsyncGenerator[Event, None]:
        self._launches += 1
        if self._flaw == "relaunches":
            job = replace(job, token=f"{job.token}-{self._launches}")
        async for event in self._agent.run(job):
            if self._flaw == "no start" and event.type is EventType.AGENT_STARTED:
                continue
            if self._flaw == "no outcome" and event.outcome:
                event = replace(event, outcome=None)
            if self._flaw == "two outcomes":
                event = replace(event, outcome=Outcome())
            if self._flaw == "no JSON":
                event = replace(event, data={"when": object()})
            yield event

    def forget(self, token: str) -> None:
        self._agent.forget(token)


@pytest.mark.parametrize(
    ("flaw", "complaint"),
    [
        ("capability", "not a boolean"),
        ("check", "it is broken"),
        ("version", "version is 3, not a string"),
        ("no start", "its first event is"),
        ("no outcome", "has no outcome"),
        ("two outcomes", "3 events have an outcome"),
        ("no JSON", "is not JSON"),
        ("relaunches", "worked a second time"),
        ("declared plan", "plan mode changed the repository"),
    ],
)
def test_a_broken_agent_is_found_out(flaw: str, complaint: str) -> None:
    good = command("open('made', 'a').write('x'); print('made it')")
    with pytest.raises(AssertionError, match=complaint):
        check_agent(lambda processes: Broken(good(processes), flaw), PROMPT)


def test_an_agent_that_does_nothing_does_not_edit() -> None:
    with pytest.raises(AssertionError, match="nothing has changed"):
        check_agent(command("print('done')"), PROMPT)


def test_an_agent_that_ends_by_itself_does_not_time_out() -> None:
    good = command("open('made', 'a').write('x'); print('made it')")
    with pytest.raises(AssertionError, match="reports success"):
        check_agent(good, PROMPT, hangs=command("import time; time.sleep(0.3)"), limits=Limits(grace=0.2))
