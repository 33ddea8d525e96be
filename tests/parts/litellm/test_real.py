"""Real Claude Code and Codex as models, against the scripted model on loopback."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from segue.sim.llm.app import llm_app
from segue.system.http.server import start_server
from tests import loopback
from tests.e2e.conftest import provider
from tests.e2e.install import AGENTS, BIN, installed
from tests.parts.litellm.place import Asking, litellm

pytestmark = pytest.mark.skipif(
    not {AGENTS["claude"], AGENTS["codex"]}.issubset(installed()),
    reason="the real command lines are not installed",
)


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    url, stop = start_server(llm_app())
    entries = [
        {"match": "What can you do", "reply": "I write code.", "usage": {"input": 40, "output": 4}},
        {"match": "your name", "reply": "I am scripted.", "usage": {"input": 20, "output": 3}},
    ]
    assert loopback.post(f"{url}/_sim/script", json=entries).status_code == 200
    yield url
    stop()


@pytest.fixture
def real(asking: Asking, model: str, monkeypatch: pytest.MonkeyPatch) -> Asking:
    monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789abcdef")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", model)
    monkeypatch.setenv("SIM_KEY", "sim-0123456789abcdef")
    asking.config(
        "[agents.claude]\nmax_retries = 1\n"
        f'[agents.codex]\npass_env = ["SIM_KEY"]\noffline_grace = 1\nconfig = {json.dumps(provider(model))}\n'
    )
    return asking


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["claude-cli/default", "codex-cli/gpt-5.5"])
def test_two_turns_with_real_usage_and_cost(real: Asking, name: str) -> None:
    messages = [{"role": "user", "content": "Hi! What's your name?"}]
    first = litellm.completion(model=name, messages=messages)
    assert first.choices[0].message.content == "I am scripted."
    messages += [
        {"role": "assistant", "content": "I am scripted."},
        {"role": "user", "content": "What can you do?"},
    ]
    second = litellm.completion(model=name, messages=messages)
    assert second.choices[0].message.content == "I write code."
    assert second.usage.estimated is False
    assert second.usage.completion_tokens == 4
    if name.startswith("claude"):
        assert second._hidden_params["response_cost"] > 0
    assert real.leftovers() == []
