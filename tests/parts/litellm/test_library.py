"""Agents as models in Python: completion and streaming, sync and async, through the real LiteLLM."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import itertools
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from segue.parts.litellm.prompts import ChatMessage, Speaker, write_transcript
from tests.cli.place import until
from tests.parts.litellm.place import HELLO, MODEL, Asking, agents_of, at_work, litellm, provider
from tests.shebang import shebang


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


@pytest.mark.parametrize("model", [MODEL, "scripted-cli/default"])
def test_an_answer_leaves_no_circle_of_ours_that_stays_until_a_full_collection(
    asking: Asking, model: str
) -> None:
    litellm.completion(model=model, messages=HELLO)  # what is made once
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        litellm.completion(model=model, messages=HELLO)
        gc.collect()
        left = Counter(type(one).__name__ for one in gc.garbage if type(one).__module__.startswith("segue."))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert left == Counter()


def test_the_model_of_the_settings_is_the_default(asking: Asking) -> None:
    asking.config('model = "gpt-5.5"\n')
    litellm.completion(model="composer-cli/default", messages=HELLO)
    [launch] = asking.launches()
    assert launch["argv"][launch["argv"].index("--model") + 1] == "gpt-5.5"


def test_the_two_turn_dialogue(asking: Asking) -> None:
    """Each call passes the whole conversation; nothing else is remembered."""
    name, ability = "I'm Composer, a language model.", "I help with coding tasks."
    asking.script(
        f'[[on]]\ncontains = "What can you do?"\nsay = "{ability}"\n'
        f'[[on]]\ncontains = "your name"\nsay = "{name}"\n'
    )
    messages = [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": "Hi! What's your name?"},
    ]
    answer = litellm.completion(model=MODEL, messages=messages).choices[0].message.content
    assert answer == name
    messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": "What can you do?"}]
    assert litellm.completion(model=MODEL, messages=messages).choices[0].message.content == ability
    said = [ChatMessage(Speaker(message["role"].upper()), message["content"]) for message in messages]
    turns = [line for line in asking.log() if "prompt_sha256" in line]
    expected = [write_transcript(said[:2]).text, write_transcript(said).text]
    assert [turn["prompt_sha256"] for turn in turns] == [
        hashlib.sha256(text.encode()).hexdigest() for text in expected
    ]
    assert turns[0]["session"] != turns[1]["session"]


def test_usage_that_nobody_reports_is_estimated_and_marked(asking: Asking) -> None:
    asking.script('[[on]]\nsay = "Good day!"\nfaults = ["no_usage"]\n')
    response = litellm.completion(model=MODEL, messages=HELLO)
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


@pytest.mark.thorough
def test_ten_megabytes_go_in(asking: Asking) -> None:
    text = "0123456789" * 1_000_000
    litellm.completion(model=MODEL, messages=[{"role": "user", "content": text}])
    [turn] = [line for line in asking.log() if "prompt_bytes" in line]
    assert turn["prompt_bytes"] == len("<<<ROLE:USER>>>\n") + len(text)


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


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_of_64_calls_only_so_many_run_at_once_and_none_is_lost(asking: Asking) -> None:
    asking.config("[provider]\nprocesses = 3\n")

    async def all_at_once() -> list[Any]:
        asked = [
            litellm.acompletion(model=MODEL, messages=[{"role": "user", "content": f"number {n}"}])
            for n in range(64)
        ]
        return await asyncio.gather(*asked)

    responses = asyncio.run(all_at_once())
    assert len({response.id for response in responses}) == 64
    assert len(asking.launches()) == 64
    spans = [response._hidden_params["segue"]["trace"][0] for response in responses]
    begins = [(span["started"] + span["queued"], 1) for span in spans]
    ends = [(span["started"] + span["seconds"], -1) for span in spans]
    # At the same instant an end counts first: its place is what lets the next one begin.
    changes = [step for _instant, step in sorted(begins + ends)]
    assert 1 < max(itertools.accumulate(changes)) <= 4
    assert asking.leftovers() == []


@pytest.mark.thorough
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


def test_a_call_that_is_cancelled_ends_its_agent(asking: Asking) -> None:
    asking.config("[limits]\nkill_grace = 0.3\n")
    asking.script('[[on]]\nfaults = ["hang"]\n')

    async def give_up() -> None:
        call = asyncio.ensure_future(litellm.acompletion(model=MODEL, messages=HELLO))
        await asyncio.to_thread(at_work, asking)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(give_up())
    until(lambda: not agents_of(asking), "the agent to end")


@pytest.mark.thorough
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


ACP = ("gemini", "copilot", "opencode", "qwen", "vibe", "cursor-acp")


@pytest.mark.quick("vibe")
@pytest.mark.parametrize("agent", ACP)
def test_agents_of_the_client_protocol_are_models(
    asking: Asking, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (asking.root / "acp.toml").write_text('[[on]]\nsay = "Good day!"\nplan = "Good day!"\n')
    monkeypatch.setenv("SEGUE_SIM_ACP", str(asking.root / "acp.toml"))
    response = litellm.completion(model=f"{agent}-cli/default", messages=HELLO)
    assert response.choices[0].message.content == "Good day!"
    assert asking.leftovers() == []


def test_agents_of_the_settings_are_models(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    (asking.root / "acp.toml").write_text('[[on]]\nsay = "Good day!"\nplan = "Good day!"\n')
    monkeypatch.setenv("SEGUE_SIM_ACP", str(asking.root / "acp.toml"))
    asking.config(f'[acp.mine]\nargv = ["{asking.root / "bin" / "gemini"}", "--acp"]\n')
    provider.register()
    response = litellm.completion(model="mine-cli/default", messages=HELLO)
    assert response.choices[0].message.content == "Good day!"


def test_registering_twice_is_registering_once() -> None:
    provider.register()
    before = list(litellm.custom_provider_map)
    provider.register()
    assert litellm.custom_provider_map == before
    assert {item["provider"] for item in before} >= {"composer-cli", "claude-cli", "codex-cli", "composite"}


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


@pytest.mark.thorough
@pytest.mark.parametrize("model", [MODEL, "gemini-cli/default"])
def test_a_stream_of_pieces_brings_the_whole_message_once(
    asking: Asking, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = " ".join(f"word{number}" for number in range(50))
    (asking.root / "acp.toml").write_text(f'[[on]]\nsay = "{words}"\nplan = "{words}"\n')
    monkeypatch.setenv("SEGUE_SIM_ACP", str(asking.root / "acp.toml"))
    asking.script(f'[[on]]\nsay = "{words}"\n')
    chunks = list(litellm.completion(model=model, messages=HELLO, stream=True))
    pieces = [piece for chunk in chunks if (piece := chunk.choices[0].delta.content)]
    assert "".join(pieces) == words


HOLDS = """{shebang}
import pathlib, subprocess, sys, time
child = subprocess.Popen([{program!r}, *sys.argv[1:]], stdout=subprocess.PIPE)
pieces = 0
for line in child.stdout:
    pieces += {mark!r} in line
    while pieces == 2 and not pathlib.Path({heard!r}).exists():
        time.sleep(0.02)
    sys.stdout.buffer.write(line)
    sys.stdout.flush()
sys.exit(child.wait())
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("agent", "model", "program", "mark"),
    [
        ("cursor", MODEL, "cursor-agent", b'"assistant"'),
        ("gemini", "gemini-cli/default", "gemini", b"agent_message_chunk"),
    ],
)
def test_words_of_an_agent_are_heard_before_it_says_the_next(
    asking: Asking, agent: str, model: str, program: str, mark: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its second piece is held back until the first one has arrived."""
    words = "One two three four five six seven eight"
    (asking.root / "acp.toml").write_text(f'[[on]]\nsay = "{words}"\nplan = "{words}"\n')
    monkeypatch.setenv("SEGUE_SIM_ACP", str(asking.root / "acp.toml"))
    asking.script(f'[[on]]\nsay = "{words}"\n')
    heard, holds = asking.root / "heard", asking.root / "holds"
    text = {"python": sys.executable, "program": str(asking.root / "bin" / program), "mark": mark}
    holds.write_text(HOLDS.format(**text, shebang=shebang(), heard=str(heard)))
    holds.chmod(0o755)
    asking.config(f'[agents.{agent}]\nagent_cmd = "{holds}"\n')
    pieces = []
    for chunk in litellm.completion(model=model, messages=HELLO, stream=True, timeout=300):
        pieces.append(chunk.choices[0].delta.content or "")
        heard.touch()
    assert "".join(pieces) == words
