"""The scripted and the command agent keep their promises, and the suite notices when an agent does not."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from segue.agents.command import CommandAgent, CommandOptions
from segue.agents.scripted.agent import ScriptedAgent, ScriptedOptions
from segue.domain.events import AgentEnded, AgentStarted, AgentText, AgentTool, Event
from segue.domain.job import Job, Limits
from segue.domain.outcome import Outcome
from segue.parts.conformance.agent import check_agent
from segue.ports import Agent, Capabilities, Installation, Problem
from segue.system.services import Services


def command(code: str) -> Callable[[Services], Agent]:
    options = CommandOptions(argv=[sys.executable, "-c", code])
    return lambda services: CommandAgent(options, services)


def scripted(script: Path | None) -> Callable[[Services], Agent]:
    return lambda services: ScriptedAgent(ScriptedOptions(script=script), services)


@pytest.mark.thorough
def test_the_scripted_agent_conforms(tmp_path: Path) -> None:
    hang = tmp_path / "hang.toml"
    hang.write_text("[[on]]\norphan = true\nhang = true\n")
    check_agent(scripted(None), hangs=scripted(hang))


@pytest.mark.thorough
def test_the_command_agent_conforms() -> None:
    work = "open('made', 'a').write('x'); print('made it')"
    check_agent(command(work), hangs=command("import time; time.sleep(600)"))


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

    async def run(self, job: Job) -> AsyncGenerator[Event | Outcome, None]:
        self._launches += 1
        if self._flaw == "relaunches":
            job = replace(job, token=f"{job.token}-{self._launches}")
        async for item in self._agent.run(job):
            if self._flaw == "no start" and isinstance(item, AgentStarted):
                continue
            if isinstance(item, Outcome):
                for other in self._instead(item):
                    yield other
            else:
                yield item

    def _instead(self, outcome: Outcome) -> list[Any]:
        """What it yields in place of its outcome."""
        flaws: dict[str, list[Any]] = {
            "no outcome": [],
            "two outcomes": [outcome, outcome],
            "early outcome": [outcome, AgentText("And another thing.")],
            "no JSON": [AgentTool("Bash", object()), outcome],
            "facts": [replace(outcome, facts={"when": object()})],
            "ends itself": [AgentEnded.of(outcome), outcome],
            "odd item": ["Hello", outcome],
        }
        return flaws.get(self._flaw, [outcome])

    def forget(self, token: str) -> None:
        self._agent.forget(token)


@pytest.mark.quick("no start-its first event is")
@pytest.mark.parametrize(
    ("flaw", "complaint"),
    [
        ("capability", "not a boolean"),
        ("check", "it is broken"),
        ("version", "version is 3, not a string"),
        ("no start", "its first event is"),
        ("no outcome", "it yielded 0 outcomes"),
        ("two outcomes", "it yielded 2 outcomes"),
        ("early outcome", "its outcome is not the last item"),
        ("no JSON", "the data of agent.tool is not JSON"),
        ("facts", "the data of facts is not JSON"),
        ("ends itself", "agent.ended is not an event for agents to yield"),
        ("odd item", "neither an event nor an outcome"),
        ("relaunches", "worked a second time"),
        ("declared plan", "plan mode changed the repository"),
    ],
)
def test_a_broken_agent_is_found_out(flaw: str, complaint: str) -> None:
    good = command("open('made', 'a').write('x'); print('made it')")
    with pytest.raises(AssertionError, match=complaint):
        check_agent(lambda services: Broken(good(services), flaw))


@pytest.mark.thorough
def test_an_agent_that_does_nothing_does_not_edit() -> None:
    with pytest.raises(AssertionError, match="nothing has changed"):
        check_agent(command("print('done')"))


@pytest.mark.thorough
def test_an_agent_that_ends_by_itself_does_not_time_out() -> None:
    good = command("open('made', 'a').write('x'); print('made it')")
    with pytest.raises(AssertionError, match="it reports success"):
        check_agent(good, hangs=command("import time; time.sleep(0.3)"), limits=Limits(grace=0.2))
