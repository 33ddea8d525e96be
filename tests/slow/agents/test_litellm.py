"""Real Claude Code and Codex as models, against the scripted model on loopback."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.model import serve_model
from tests.features.litellm.place import DROPPED, Asking, environment, litellm, prepare
from tests.later import Later
from tests.slow.agents.conftest import provider
from tests.slow.agents.install import BIN, installed

library: Any = Later("segue.features.litellm.library")
pytestmark = pytest.mark.skipif(
    not installed() >= {"claude", "codex"},
    reason="the real command lines are not installed",
)


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    entries = [
        {"match": "What can you do", "reply": "I write code.", "usage": {"input": 40, "output": 4}},
        {"match": "your name", "reply": "I am scripted.", "usage": {"input": 20, "output": 3}},
    ]
    with serve_model(*entries) as model:
        yield model.url


@pytest.fixture
def real(tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asking]:
    prepare(tmp_path)
    for name in [name for name in os.environ if name.startswith(DROPPED)]:
        monkeypatch.delenv(name)
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    asking = Asking(tmp_path)
    monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789abcdef")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", model)
    monkeypatch.setenv("SIM_KEY", "sim-0123456789abcdef")
    asking.config(
        "[agents.claude]\nmax_retries = 1\n"
        f'[agents.codex]\npass_env = ["SIM_KEY"]\noffline_grace = 1\nconfig = {json.dumps(provider(model))}\n'
    )
    yield asking
    library.close()


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
