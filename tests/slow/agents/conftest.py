"""A model on loopback, and places where the real programs work with it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.place import PLAN, Place
from tests.fakes import model as fakes
from tests.slow.agents.install import AGENTS, BIN, skipped

KEY = "sim-0123456789abcdef"
_VENDORS = (
    *("COPILOT_", "GH_", "GITHUB_", "QWEN_", "DASHSCOPE_", "ANTHROPIC_", "CLAUDE_"),
    *("CODEX_", "OPENAI_", "GEMINI_", "GOOGLE_", "OPENCODE_"),
)
_SMALL = "sim-small"
_PATIENCE = 600.0


def provider(url: str) -> list[str]:
    """What Codex is told about the model."""
    table = f'name="sim",base_url="{url}/v1",env_key="SIM_KEY",wire_api="responses"'
    retries = "request_max_retries=1,stream_max_retries=1"
    return ['model_provider="sim"', f"model_providers.sim={{{table},{retries}}}"]


def opencode(url: str, model: str = "sim-large") -> str:
    """What OpenCode is told about the model; it has another one invent titles."""
    known = {"tool_call": True, "limit": {"context": 200_000, "output": 8_000}}
    options = {"baseURL": f"{url}/v1", "apiKey": KEY}
    sim = {
        "npm": "@ai-sdk/openai-compatible",
        "options": options,
        "models": {model: known, _SMALL: known},
    }
    return json.dumps({"provider": {"sim": sim}, "model": f"sim/{model}", "small_model": f"sim/{_SMALL}"})


def environment(name: str, url: str, kept: Path) -> dict[str, str]:
    """The variables that make an agent ask our model instead of its vendor's."""
    if reason := skipped().get(name):
        pytest.skip(f"{name}: {reason}")
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    own = {
        "claude": {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": url},
        "codex": {"SIM_KEY": KEY},
        "gemini": {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": url},
        "opencode": {
            "OPENCODE_CONFIG_CONTENT": opencode(url),
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            # Its database takes seconds to make: one for all tests.
            "XDG_DATA_HOME": str(kept / "opencode-data"),
        },
    }
    own["copilot"] = {
        "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
        "COPILOT_PROVIDER_API_KEY": KEY,
        "COPILOT_MODEL": "sim-large",
        "COPILOT_OFFLINE": "true",
    }
    own["qwen"] = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "sim-large"}
    return {"PATH": path, **own[name]}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is missing instead of failing."""
    reasons, here = skipped(), Path(__file__).parent
    for item in items:
        called = getattr(item, "callspec", None) if item.path.parent == here else None
        name = called.params.get("real") if called else None
        if name in reasons:
            item.add_marker(pytest.mark.skip(reason=f"{name}: {reasons[name]}"))


class Model:
    """The scripted model, and what it was asked; a small one of OpenCode's invents titles."""

    def __init__(self, model: fakes.Model) -> None:
        self._model = model
        self.url = model.url
        self.release = model.release

    def plays(self, *entries: dict[str, Any]) -> None:
        self._model.plays({"model": _SMALL, "reply": "A title"}, *entries)

    def asked(self) -> list[dict[str, Any]]:
        """The bodies of the requests for an answer."""
        return [body for body in self._model.asked() if body.get("model") != _SMALL]


@dataclass
class Real:
    """One of the real command lines, in a place of its own."""

    name: str
    place: Place
    model: Model

    def write(self, match: str, path: str, text: str) -> dict[str, Any]:
        """An answer of the model that writes a file, the way this agent's models do."""
        place = str(self.place.repo / path)
        calls = {
            "claude": {"name": "Write", "arguments": {"file_path": place, "content": text}},
            "codex": self.shell(f"printf '%s' '{text}' > {place}"),
            "gemini": {"name": "write_file", "arguments": {"file_path": place, "content": text}},
            "opencode": {"name": "write", "arguments": {"filePath": place, "content": text}},
            "copilot": {"name": "create", "arguments": {"path": place, "file_text": text}},
            "qwen": {"name": "write_file", "arguments": {"file_path": place, "content": text}},
        }
        return {"match": match, "times": 1, "tool_calls": [calls[self.name]]}

    def shell(self, command: str) -> dict[str, Any]:
        """A call of the tool that runs commands."""
        told = {"command": command, "description": "A command"}
        calls = {
            "claude": {"name": "Bash", "arguments": {"command": command}},
            "codex": {"name": "exec_command", "arguments": {"cmd": command, "yield_time_ms": 30000}},
            "gemini": {"name": "run_shell_command", "arguments": told},
            "opencode": {"name": "bash", "arguments": told},
            "copilot": {"name": "bash", "arguments": told},
            "qwen": {"name": "run_shell_command", "arguments": {**told, "is_background": False}},
        }
        return calls[self.name]

    def events(self, kind: str) -> list[dict[str, Any]]:
        rows = self.place.rows("select data from orchestrator_events where type = ? order by seq", kind)
        return [json.loads(row[0]) for row in rows]

    def usage(self) -> list[dict[str, Any]]:
        """What each launch has told last about its use: some tell it while they work."""
        sql = "select step, data from orchestrator_events where type = 'agent.usage' order by seq"
        last = {step: json.loads(data) for step, data in self.place.rows(sql)}
        return list(last.values())

    def failure(self) -> dict[str, Any]:
        found = self.events("agent.ended")[-1]["failure"]
        assert isinstance(found, dict)
        return found


@pytest.fixture
def model() -> Iterator[Model]:
    with fakes.serve_model() as served:
        yield Model(served)


@pytest.fixture(params=AGENTS)
def real(request: pytest.FixtureRequest, tmp_path: Path, model: Model) -> Real:
    return make_real(request.param, tmp_path, model)


def make_real(name: str, root: Path, model: Model) -> Real:
    place = Place.make(root, PLAN)
    place.patience = _PATIENCE
    place.use_sandbox()
    for key in [key for key in place.env if key.startswith(_VENDORS)]:
        del place.env[key]
    place.env |= environment(name, model.url, root.parent)
    options = {
        "claude": "max_retries = 1\n",
        "codex": f'pass_env = ["SIM_KEY"]\noffline_grace = 1\nconfig = {json.dumps(provider(model.url))}\n',
        # Time to store the session on a busy machine before it is terminated.
        "gemini": "end_grace = 10\n",
        "opencode": "end_grace = 10\nretry_grace = 1\n",
        "copilot": "end_grace = 10\nretry_grace = 1\n",
        "qwen": "end_grace = 10\nretry_grace = 1\n",
    }
    models = {"codex": 'model = "gpt-5.5"\n', "gemini": 'model = "gemini-2.5-pro"\n'}
    limits = "[limits]\nattempts = 1\nkill_grace = 0.5\n"
    place.config(f'agent = "{name}"\n{models.get(name, "")}{limits}[agents.{name}]\n{options[name]}')
    return Real(name, place, model)
