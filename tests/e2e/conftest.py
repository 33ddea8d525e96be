"""A model on loopback, and places where the real command lines work with it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from segue.sim.http_server import serve
from segue.sim.llm.app import llm_app
from tests.cli.place import PLAN, Place
from tests.e2e.install import HERE, PACKAGES, installed

BIN = HERE / "node_modules" / ".bin"


def provider(url: str) -> list[str]:
    """What Codex is told about the model."""
    table = f'name="sim",base_url="{url}/v1",env_key="SIM_KEY",wire_api="responses"'
    retries = "request_max_retries=1,stream_max_retries=1"
    return ['model_provider="sim"', f"model_providers.sim={{{table},{retries}}}"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "e2e: drives real command lines, which `make e2e` installs")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say once and loudly what is missing, instead of failing."""
    missing = sorted(PACKAGES.keys() - installed())
    for item in items:
        if Path(str(item.fspath)).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.e2e)
            if missing:
                reason = f"not installed: {', '.join(missing)}; run `make e2e`"
                item.add_marker(pytest.mark.skip(reason=reason))


@dataclass
class Model:
    """The scripted model, and what it was asked."""

    url: str
    http: httpx2.Client

    def plays(self, *entries: dict[str, Any]) -> None:
        assert self.http.post("/_sim/script", json=list(entries)).status_code == 200

    def asked(self) -> list[dict[str, Any]]:
        """The bodies of the requests for an answer."""
        seen = self.http.get("/_sim/log").json()["requests"]
        wanted = ("/v1/messages", "/v1/responses")
        return [request["body"] for request in seen if request["path"] in wanted]


@dataclass
class Real:
    """One of the real command lines, in a place of its own."""

    name: str
    place: Place
    model: Model

    def write(self, match: str, path: str, text: str) -> dict[str, Any]:
        """An answer of the model that writes a file, the way this agent's models do."""
        place = self.place.repo / path
        if self.name == "claude":
            call = {"name": "Write", "arguments": {"file_path": str(place), "content": text}}
        else:
            call = self.shell(f"printf '%s' '{text}' > {place}")
        return {"match": match, "times": 1, "tool_calls": [call]}

    def shell(self, command: str) -> dict[str, Any]:
        """A call of the tool that runs commands."""
        if self.name == "claude":
            return {"name": "Bash", "arguments": {"command": command}}
        return {"name": "exec_command", "arguments": {"cmd": command, "yield_time_ms": 30000}}

    def events(self, kind: str) -> list[dict[str, Any]]:
        rows = self.place.rows("select data from orchestrator_events where type = ? order by seq", kind)
        return [json.loads(row[0]) for row in rows]

    def failure(self) -> dict[str, Any]:
        found = self.events("agent.ended")[-1]["failure"]
        assert isinstance(found, dict)
        return found


@pytest.fixture(scope="session")
def model_server() -> Iterator[str]:
    url, stop = serve(llm_app())
    yield url
    stop()


@pytest.fixture
def model(model_server: str) -> Iterator[Model]:
    with httpx2.Client(base_url=model_server, timeout=60, trust_env=False) as http:
        http.delete("/_sim/log")
        yield Model(model_server, http)


@pytest.fixture(params=["claude", "codex"])
def real(request: pytest.FixtureRequest, tmp_path: Path, model: Model) -> Real:
    return make_real(request.param, tmp_path, model)


def make_real(name: str, root: Path, model: Model) -> Real:
    place = Place.make(root, PLAN)
    dropped = [key for key in place.env if key.startswith(("ANTHROPIC_", "CLAUDE_", "CODEX_", "OPENAI_"))]
    for key in dropped:
        del place.env[key]
    place.env |= {
        "PATH": f"{BIN}{os.pathsep}{place.env['PATH']}",
        "ANTHROPIC_API_KEY": "sk-ant-0123456789abcdef",
        "ANTHROPIC_BASE_URL": model.url,
        "SIM_KEY": "sim-0123456789abcdef",
    }
    options = {
        "claude": "max_retries = 1\n",
        "codex": f'pass_env = ["SIM_KEY"]\noffline_grace = 1\nconfig = {json.dumps(provider(model.url))}\n',
    }
    model_name = 'model = "gpt-5.5"\n' if name == "codex" else ""
    limits = "[limits]\nattempts = 1\nkill_grace = 0.5\n"
    place.config(f'agent = "{name}"\n{model_name}{limits}[agents.{name}]\n{options[name]}')
    return Real(name, place, model)
