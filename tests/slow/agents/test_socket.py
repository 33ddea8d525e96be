"""The real programs that have an adapter of their own keep the promises of the agents' socket.

Those that speak ACP share one adapter, which stand-ins put to this test.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from segue.agents.claude.agent import ClaudeAgent, ClaudeOptions
from segue.agents.codex.agent import CodexAgent, CodexOptions
from segue.domain.job import Job, Limits, Mode
from segue.domain.outcome import Outcome
from segue.domain.task import Task
from segue.ports import Agent
from segue.prompts.task import execute_prompt
from segue.system.process.processes import Processes
from segue.system.services import Services
from tests.agents.items import lend, outcome, run_to_end
from tests.conformance.agent import check_agent
from tests.slow.agents.conftest import Model, Real, provider

pytestmark = pytest.mark.parametrize("real", ["claude", "codex"], indirect=True)
PROMPT = execute_prompt(Task("1", "Say hello", ""), "", nonce="test")
HANGING = {"claude": "claude-hangs", "codex": "gpt-hangs"}


@pytest.fixture
def here(real: Real, monkeypatch: pytest.MonkeyPatch) -> Real:
    """The environment of the real programs, in this process."""
    for name in os.environ.keys() - real.place.env.keys():
        monkeypatch.delenv(name)
    for name, value in real.place.env.items():
        monkeypatch.setenv(name, value)
    return real


def agent(name: str, model: Model, services: Services, model_name: str = "", **options: Any) -> Agent:
    if name == "claude":
        chosen = ["--model", model_name] if model_name else []
        claude = ClaudeOptions(extra_args=chosen, max_retries=1, **options)
        return ClaudeAgent(claude, services)
    config = [*provider(model.url), f'model="{model_name or "gpt-5.5"}"']
    codex = CodexOptions(config=config, pass_env=["SIM_KEY"], offline_grace=5, **options)
    return CodexAgent(codex, services)


def test_the_promises_of_the_socket(here: Real) -> None:
    shell = here.shell("printf x > made.txt")
    turns = [{"times": 1, "tool_calls": [shell]}, {"times": 1, "reply": "Made it."}] * 40
    here.model.plays({"model": "hangs", "delay": 600, "reply": "never"}, *turns)
    check_agent(
        lambda services: agent(here.name, here.model, services),
        PROMPT,
        hangs=lambda services: agent(here.name, here.model, services, HANGING[here.name]),
    )


def test_a_follow_up_goes_on_with_the_session(here: Real, tmp_path: Path) -> None:
    here.model.plays(
        {"times": 1, "reply": "My favourite number is 7411."},
        {"times": 1, "reply": "As I said: 7411.", "usage": {"input": 50, "output": 5}},
    )

    async def both() -> tuple[Outcome, Outcome, Outcome]:
        async with Processes(tmp_path / "run") as processes:
            asked = agent(here.name, here.model, lend(processes))

            async def launch(token: str, session: str | None, mode: Mode) -> Outcome:
                limits = Limits(wall=60, idle=60, grace=0.5)
                job = Job(token, PROMPT, here.place.repo, mode, session=session, limits=limits)
                return outcome(await run_to_end(asked, job))

            first = await launch("first", None, Mode.ASK)
            second = await launch("second", first.session, Mode.EDIT)
            nobody = await launch("third", "01a1dd54-b3cd-7ac3-aa40-000000000000", Mode.EDIT)
            return first, second, nobody

    first, second, nobody = asyncio.run(both())
    assert (first.failure, second.failure) == (None, None)
    assert first.session == second.session
    assert "favourite number is 7411" in json.dumps(here.model.asked()[1])
    assert first.usage is not None
    assert second.usage is not None
    assert (second.usage.input_tokens, second.usage.output_tokens) == (50, 5)
    assert nobody.failure is not None
    assert nobody.failure.kind == "not_started"


def test_a_command_in_the_background_does_not_hold_the_result_up(here: Real, tmp_path: Path) -> None:
    if here.name != "claude":
        pytest.skip("Codex ends its commands when it ends")
    call = {"name": "Bash", "arguments": {"command": "sleep 601; true", "run_in_background": True}}
    here.model.plays({"times": 1, "tool_calls": [call]}, {"reply": "It runs."})

    async def launch() -> Outcome:
        async with Processes(tmp_path / "run") as processes:
            limits = Limits(wall=60, idle=60, grace=0.5)
            job = Job("token", PROMPT, here.place.repo, limits=limits)
            asked = agent("claude", here.model, lend(processes), result_grace=0.5)
            return outcome(await run_to_end(asked, job))

    found = asyncio.run(launch())
    assert (found.failure, found.text) == (None, "It runs.")
