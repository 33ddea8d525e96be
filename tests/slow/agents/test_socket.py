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
from msgspec.structs import replace

from segue.agents.claude.agent import ClaudeAgent, ClaudeOptions
from segue.agents.codex.agent import CodexAgent, CodexOptions
from segue.domain.job import Job, Limits, Mode, Prompt
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
        claude = ClaudeOptions(extra_args=chosen, **options)
        return ClaudeAgent(claude, services)
    config = [*provider(model.url), f'model="{model_name or "gpt-5.5"}"']
    codex = CodexOptions(config=config, pass_env=["SIM_KEY"], **options)
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


def test_a_conversation_that_was_ended_on_purpose_continues_with_new_words(
    here: Real, tmp_path: Path
) -> None:
    here.model.plays(
        {"times": 1, "tool_calls": [here.shell("printf x > made.txt")]},
        {"times": 1, "delay": 600, "reply": "never"},
        {"reply": "I use dates.py."},
    )

    async def both() -> tuple[Outcome, Outcome]:
        async with Processes(tmp_path / "run") as processes:
            asked = agent(here.name, here.model, lend(processes))
            job = Job("first", PROMPT, here.place.repo, limits=Limits(wall=60, idle=60, grace=3))
            work = asyncio.create_task(run_to_end(asked, job))
            while len(here.model.asked()) < 2:
                await asyncio.sleep(0.05)
            work.cancel()
            await asyncio.wait([work])
            ended = outcome(await run_to_end(asked, job))
            words = replace(job, token="second", prompt=Prompt("Use dates.py."), session=ended.session)
            return ended, outcome(await run_to_end(asked, words))

    ended, continued = asyncio.run(both())
    assert ended.session == continued.session is not None
    assert (here.place.repo / "made.txt").read_text() == "x", "its work is kept"
    assert (continued.failure, continued.text) == (None, "I use dates.py.")
    last = json.dumps(here.model.asked()[-1])
    assert "made.txt" in last, "the conversation so far is in the request"
    assert "Use dates.py." in last
