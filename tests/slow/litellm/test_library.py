"""Agents as models in Python: completion and streaming, sync and async, through the real LiteLLM."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.place import until
from tests.features.litellm.place import HELLO, MODEL, Asking, agents_of, at_work, litellm, provider


@pytest.fixture(autouse=True)
def temporary(asking: Asking) -> Iterator[None]:
    """Python remembers where temporary files go."""
    before, tempfile.tempdir = tempfile.tempdir, None
    yield
    tempfile.tempdir = before


def test_a_completion_is_an_ordinary_response(asking: Asking) -> None:
    asking.script('[[on]]\nsay = "Good day!  \\n"\nusage = { inputTokens = 12, outputTokens = 3 }\n')
    response = litellm.completion(model=MODEL, messages=HELLO)
    assert response.choices[0].message.content == "Good day!"
    assert response.choices[0].finish_reason == "stop"
    assert (response.usage.prompt_tokens, response.usage.completion_tokens) == (12, 3)
    assert response.usage.estimated is False
    assert response.model == MODEL
    [span] = response._hidden_params["segue"]["trace"]
    assert span["exit_code"] == 0
    assert span["seconds"] > 0


def test_the_agent_is_asked_in_ask_mode_in_a_fresh_empty_folder_that_goes(asking: Asking) -> None:
    litellm.completion(model=MODEL, messages=HELLO)
    litellm.completion(model="composer-cli/default", messages=HELLO)
    first, second = asking.launches()
    assert first["mode"] == second["mode"] == "ask"
    assert first["argv"][first["argv"].index("--model") + 1] == "composer-2.5"
    assert "--model" not in second["argv"]
    assert "--force" not in first["argv"]
    assert first["cwd"] != second["cwd"]
    assert not Path(first["cwd"]).exists()
    assert asking.leftovers() == []


def test_usage_that_nobody_reports_is_estimated_and_marked(asking: Asking) -> None:
    asking.config('[agents.command]\nargv = ["cat"]\n')
    response = litellm.completion(model="command-cli/default", messages=HELLO)
    assert response.usage.estimated is True
    assert response.usage.total_tokens > 2
    assert response._hidden_params["segue"]["usage_estimated"] is True


def test_prices_that_the_user_registers_make_the_cost(asking: Asking) -> None:
    asking.script('[[on]]\nsay = "x"\nusage = { inputTokens = 10, outputTokens = 2 }\n')
    price = {"input_cost_per_token": 0.5, "output_cost_per_token": 1.0, "litellm_provider": "composer-cli"}
    litellm.register_model({"composer-cli/gpt-5.5": {**price, "mode": "chat"}})
    response = litellm.completion(model="composer-cli/gpt-5.5", messages=HELLO)
    assert litellm.completion_cost(response, model="composer-cli/gpt-5.5") == pytest.approx(7.0)
    assert response._hidden_params["response_cost"] == pytest.approx(7.0)


def test_streams_bring_the_same_answer_in_pieces(asking: Asking) -> None:
    lines = "\n".join(f"line {number}" for number in range(1000))
    asking.script(f'[[on]]\nsay = """{lines}"""\nusage = {{ inputTokens = 5, outputTokens = 7 }}\n')
    wanted: dict[str, Any] = {"model": MODEL, "messages": HELLO, "stream": True}
    wanted["stream_options"] = {"include_usage": True}
    chunks = list(litellm.completion(**wanted))

    async def collected() -> list[Any]:
        return [chunk async for chunk in await litellm.acompletion(**wanted)]

    for seen in (chunks, asyncio.run(collected())):
        pieces = [chunk.choices[0].delta.content or "" for chunk in seen if chunk.choices]
        assert "".join(pieces) == lines
        assert len([piece for piece in pieces if piece]) > 1
        reasons = [chunk.choices[0].finish_reason for chunk in seen if chunk.choices]
        assert [reason for reason in reasons if reason] == ["stop"]
        [used] = [chunk.usage for chunk in seen if getattr(chunk, "usage", None)]
        assert used.total_tokens == 12


def test_calls_come_from_any_loop_and_any_thread(asking: Asking) -> None:
    async def once() -> str:
        response = await litellm.acompletion(model=MODEL, messages=HELLO)
        return str(response.choices[0].message.content)

    assert asyncio.run(once()) == asyncio.run(once())
    answers: list[str] = []
    threads = [threading.Thread(target=lambda: answers.append(asyncio.run(once()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 3


def test_a_stream_that_is_given_up_ends_its_agent(asking: Asking) -> None:
    asking.config("[limits]\nkill_grace = 0.3\n")
    asking.script('[[on]]\nfaults = ["hang"]\n')

    async def give_up() -> list[int]:
        stream = await litellm.acompletion(model=MODEL, messages=HELLO, stream=True)
        first = asyncio.ensure_future(anext(stream))
        pids = await asyncio.to_thread(at_work, asking)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        return pids

    assert asyncio.run(give_up())
    until(lambda: not agents_of(asking), "the agent to end")
    until(lambda: not asking.leftovers(), "its folders to go")


def test_closing_ends_agents_and_leaves_nothing(asking: Asking) -> None:
    asking.config("[limits]\nkill_grace = 0.3\n")
    asking.script('[[on]]\nfaults = ["hang"]\n')
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            litellm.completion(model=MODEL, messages=HELLO)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    at_work(asking)
    provider.close()
    thread.join()
    assert failures
    assert agents_of(asking) == []
    assert list((asking.state / "provider" / "processes").iterdir()) == []
    assert list((asking.root / "tmp").glob("segue-ask-*")) == []


def test_agents_of_the_settings_are_models(asking: Asking) -> None:
    (asking.root / "bin" / "acp.toml").write_text('[[on]]\nsay = "Good day!"\nplan = "Good day!"\n')
    asking.config(f'[acp.mine]\nargv = ["{asking.root / "bin" / "gemini"}", "--acp"]\n')
    provider.register()
    response = litellm.completion(model="mine-cli/default", messages=HELLO)
    assert response.choices[0].message.content == "Good day!"


def test_a_stream_brings_words_while_the_agent_still_speaks(asking: Asking) -> None:
    """The program waits for the file that is written when its first words have arrived."""
    heard = asking.root / "heard"
    program = asking.root / "talker"
    program.write_text(
        f"#!/bin/sh\ncat >/dev/null\necho One\nwhile [ ! -e {heard} ]; do sleep 0.05; done\necho two\n"
    )
    program.chmod(0o755)
    asking.config(f'[agents.command]\nargv = ["{program}"]\n')
    pieces = []
    for chunk in litellm.completion(model="command-cli/default", messages=HELLO, stream=True, timeout=300):
        pieces.append(chunk.choices[0].delta.content or "")
        heard.touch()
    assert "".join(pieces) == "One\ntwo"
