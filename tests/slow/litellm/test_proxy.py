"""Agents behind the real LiteLLM proxy, asked by the real OpenAI client."""

from __future__ import annotations

import http.client
import importlib
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner

from segue.cli.main import cli
from tests import loopback
from tests.cli.place import until
from tests.features.litellm.place import (
    HELLO,
    MODEL,
    Asking,
    agents_of,
    at_work,
    environment,
    openai,
    prepare,
)

yaml: Any = importlib.import_module("yaml")

CONFIG = f"""
[agents.command]
argv = ["cat"]
[limits]
kill_grace = 0.3
[[provider.models]]
name = "fast"
model = "{MODEL}"
params = {{ input_cost_per_token = 0.5, output_cost_per_token = 1.0 }}
[profiles.safe]
kind = "fallback"
models = ["composer-cli/nope", "fast"]
"""
START = 300.0


@dataclass
class Proxy:
    """A running proxy and its setting."""

    asking: Asking
    url: str
    key: str
    process: subprocess.Popen[bytes]

    def client(self, **options: Any) -> Any:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=self.key, **options)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """`segue proxy`, started once: it takes ten seconds."""
    with start_proxy(tmp_path_factory.mktemp("proxy")) as started:
        yield started


@contextmanager
def start_proxy(root: Path) -> Iterator[Proxy]:
    """Serve models until the block ends."""
    prepare(root, CONFIG)
    port = free_port()
    command = [sys.executable, "-m", "segue", "proxy", "--port", str(port)]
    with (root / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=root, env=environment(root), stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    end = time.monotonic() + START
    while not _answers(url):
        assert process.poll() is None, (root / "log").read_text()
        assert time.monotonic() < end, "the proxy does not start"
        time.sleep(0.1)
    asking = Asking(root)
    key = (asking.state / "private" / "proxy" / "key").read_text().strip()
    yield Proxy(asking, url, key, process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0
    assert list((asking.state / "provider" / "processes").iterdir()) == []
    assert list((root / "tmp").glob("segue-ask-*")) == []


def _answers(url: str) -> bool:
    try:
        return loopback.get(f"{url}/health/liveliness").status_code == 200
    except httpx2.HTTPError:
        return False


def test_an_alias_answers_with_usage_and_cost(proxy: Proxy) -> None:
    proxy.asking.script('[[on]]\nsay = "Good day!"\nusage = { inputTokens = 10, outputTokens = 2 }\n')
    raw = proxy.client().chat.completions.with_raw_response.create(model="fast", messages=HELLO)
    answer = raw.parse()
    assert answer.choices[0].message.content == "Good day!"
    assert answer.usage is not None
    assert answer.usage.total_tokens == 12
    assert float(raw.headers["x-litellm-response-cost"]) == pytest.approx(7.0)


@pytest.mark.parametrize("model", [MODEL, "composite/profile/safe"])
def test_models_and_profiles_answer_and_stream(proxy: Proxy, model: str) -> None:
    proxy.asking.script('[[on]]\nsay = "Good day!"\n')
    client = proxy.client()
    answer = client.chat.completions.create(model=model, messages=HELLO)
    assert answer.choices[0].message.content == "Good day!"
    stream = client.chat.completions.create(model=model, messages=HELLO, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "Good day!"


def test_nobody_without_the_key_is_served(proxy: Proxy) -> None:
    before = len(proxy.asking.launches())
    client: Any = openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="sk-guess", max_retries=0)
    with pytest.raises(openai.AuthenticationError):
        client.chat.completions.create(model="fast", messages=HELLO)
    for headers in (
        {},
        {"authorization": "Bearer x"},
        {"authorization": proxy.key},
        {"x-api-key": proxy.key},
    ):
        for path in ("/v1/models", "/v1/chat/completions", "/ui", "/openapi.json", "/"):
            assert loopback.get(proxy.url + path, headers=headers).status_code == 401
    assert len(proxy.asking.launches()) == before


def test_everything_else_of_the_proxy_is_closed(proxy: Proxy) -> None:
    known = {"authorization": f"Bearer {proxy.key}"}
    with loopback.client(base_url=proxy.url, headers=known, timeout=300) as client:
        for path in (
            "/ui",
            "/ui/",
            "/routes",
            "/openapi.json",
            "/docs",
            "/key/info",
            "/v1/models/",
            "/metrics",
            "/",
        ):
            assert client.get(path).status_code == 404, path
        for path in ("/config/update", "/key/generate", "/v1/embeddings", "/v1//chat/completions"):
            assert client.post(path, json={}).status_code == 404, path
        assert client.get("/v1/chat/completions").status_code == 405
        assert client.get("/v1/models", headers={"host": "evil.example"}).status_code == 403
        assert client.get("/v1/models", headers={"origin": "https://evil.example"}).status_code == 403
        assert client.request("OPTIONS", "/v1/models", headers={"origin": "null"}).status_code == 403
        assert client.post("/v1/chat/completions", content=b"x" * (5 * 1024**2)).status_code == 413
        models = client.get("/v1/models")
        listed = {model["id"] for model in models.json()["data"]}
        assert listed >= {"fast", "composite/profile/safe", "composer-cli/default", "command-cli/default"}
        assert not [name for name in models.headers if name.startswith("access-control-")]


FAILURES = {
    'say = ""\nstderr = "broken"\nexit_code = 3': "UnprocessableEntityError",
    'faults = ["quota"]': "RateLimitError",
    'faults = ["bad_key"]': "AuthenticationError",
    'stderr = "HTTP 503 Service Unavailable"\nexit_code = 3': "InternalServerError",
}


@pytest.mark.parametrize("entry", FAILURES)
@pytest.mark.parametrize("stream", [False, True])
def test_a_failure_has_its_status_and_a_default_client_launches_once(
    proxy: Proxy, entry: str, stream: bool
) -> None:
    proxy.asking.script(f"[[on]]\n{entry}\n")
    before = len(proxy.asking.launches())
    with pytest.raises(getattr(openai, FAILURES[entry])) as caught:
        proxy.client().chat.completions.create(model=MODEL, messages=HELLO, stream=stream)
    if "quota" in entry:
        assert int(caught.value.response.headers["retry-after"]) > 0
    assert len(proxy.asking.launches()) == before + 1


@pytest.mark.parametrize("model", ["nobody-cli/x", "composite/profile/nope", "claude-cli"])
@pytest.mark.parametrize("stream", [False, True])
def test_an_unknown_model_is_refused_at_once(proxy: Proxy, model: str, stream: bool) -> None:
    before = len(proxy.asking.log())
    with pytest.raises((openai.BadRequestError, openai.NotFoundError)):
        proxy.client(timeout=300, max_retries=0).chat.completions.create(
            model=model, messages=HELLO, stream=stream
        )
    assert len(proxy.asking.log()) == before


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_hangs_up_ends_the_agent(proxy: Proxy, stream: bool) -> None:
    proxy.asking.script('[[on]]\nfaults = ["hang"]\n')
    body = {"model": MODEL, "messages": HELLO, "stream": stream}
    headers = {"authorization": f"Bearer {proxy.key}", "content-type": "application/json"}
    client = http.client.HTTPConnection(proxy.url.removeprefix("http://"))
    client.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    at_work(proxy.asking)
    client.close()
    until(lambda: not agents_of(proxy.asking), "the agent to end")


def test_the_key_is_kept_private_and_shown_on_request(proxy: Proxy) -> None:
    path = proxy.asking.state / "private" / "proxy" / "key"
    assert path.stat().st_mode & 0o777 == 0o600
    root = proxy.asking.root
    command = [sys.executable, "-m", "segue", "proxy", "key"]
    shown = subprocess.run(
        command, cwd=root, env=environment(root), capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == proxy.key
    given = {**environment(root), "LITELLM_MASTER_KEY": "sk-mine"}
    shown = subprocess.run(command, cwd=root, env=given, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "sk-mine"


def test_the_configuration_is_what_litellm_reads(asking: Asking) -> None:
    asking.config(CONFIG)
    done = CliRunner().invoke(cli, ["proxy", "config"], catch_exceptions=False)
    config = yaml.safe_load(done.stdout)
    assert config["litellm_settings"]["num_retries"] == config["router_settings"]["num_retries"] == 0
    names = [entry["model_name"] for entry in config["model_list"]]
    assert {"composer-cli/*", "claude-cli/*", "codex-cli/*", "gemini-cli/*", "command-cli/*"} < set(names)
    assert "composer-cli/default" in names
    assert "claude-cli/default" not in names, "it is not installed here"
    assert not [name for name in names if "cloud" in name]
    assert names[-2:] == ["composite/profile/safe", "fast"]
    [*_, fast] = config["model_list"]
    assert fast["litellm_params"]["input_cost_per_token"] == 0.5


KILLED = """
import litellm, segue.provider
litellm.completion(model={model!r}, messages=[{{"role": "user", "content": "hello"}}])
"""


def test_the_agent_of_a_killed_caller_is_ended(tmp_path: Path) -> None:
    """Without a proxy, but the same case: nobody is left to read the answer."""
    prepare(tmp_path, "[limits]\nkill_grace = 0.3\n", '[[on]]\nfaults = ["hang"]\n')
    asking = Asking(tmp_path)
    caller = subprocess.Popen(
        [sys.executable, "-c", KILLED.format(model=MODEL)], env=environment(tmp_path), cwd=tmp_path
    )
    at_work(asking)
    caller.kill()
    caller.wait()
    until(lambda: not agents_of(asking), "the agent to end")
