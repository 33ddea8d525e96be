"""The search simulator refuses what the services refuse, and plays its script."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from segue.parts.searchers.sim import search_app
from segue.system.http.server import start_server
from tests import loopback


@pytest.fixture
def http() -> Iterator[httpx2.Client]:
    url, stop = start_server(search_app())
    with loopback.client(base_url=url, timeout=300) as client:
        yield client
    stop()


def test_keys_and_queries_are_wanted(http: httpx2.Client) -> None:
    brave = {"x-subscription-token": "k"}
    assert http.get("/res/v1/web/search", params={"q": "a"}).json()["error"]["code"] == "VALIDATION"
    assert http.get("/res/v1/web/search", params={"q": "a" * 401}, headers=brave).status_code == 422
    assert http.get("/res/v1/web/search", params={"q": "a", "count": 21}, headers=brave).status_code == 422
    assert http.post("/search", json={"query": "a"}).status_code == 401
    bearer = {"authorization": "Bearer k"}
    assert http.post("/search", json={"max_results": 3}, headers=bearer).status_code == 400
    assert http.get("/search", params={"format": "json"}).status_code == 400
    assert "html" in http.get("/search", params={"q": "a"}).headers["content-type"]


def test_scripts_can_be_changed(http: httpx2.Client) -> None:
    assert http.post("/_sim/script", json=[{"fault": "down", "status": 500}]).status_code == 200
    asked = {"q": "a", "format": "json"}
    assert http.get("/search", params=asked).status_code == 500
    assert http.post("/_sim/on", json=[{"times": 1}]).status_code == 200
    assert [http.get("/search", params=asked).status_code for _ in range(2)] == [200, 500]
    wrong = http.post("/_sim/script", json=[{"fault": "nonsense"}])
    assert wrong.status_code == 400
    assert "fault" in wrong.json()["error"]


def test_the_command_serves(tmp_path: Path) -> None:
    script = tmp_path / "search.toml"
    script.write_text('[[on]]\nresults = [{ title = "T", url = "https://example.com/t" }]\n')
    command = [sys.executable, "-m", "segue", "sim", "search", "--script", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().removeprefix("listening on ").strip()
            found = loopback.get(f"{url}/search", params={"q": "a", "format": "json"}).json()
            assert found["results"][0]["title"] == "T"
        finally:
            process.terminate()
