"""The relay over HTTP: tokens, refusals, and limits under load."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import loopback
from tests.cli.place import DEADLINE, until
from tests.parts.relay.place import PYTHON, Relay, RelayPlace

CONFIG = """
[relay]
rate = 100000
[relay.actions.hello]
argv = ["echo", "hello", "{who}"]
description = "Says hello."
parameters = { who = "[a-z ]+" }
[relay.actions.secretive]
argv = ["true"]
env = { MY_TOKEN = "very-secret-value" }
"""

HOLDING = """
import os, pathlib, sys, time
live = pathlib.Path(sys.argv[1]) / "live"
mine = live / str(os.getpid())
mine.touch()
(live.parent / "most" / str(len(list(live.iterdir())))).touch()
while not (live.parent / "go").exists():
    time.sleep(0.01)
mine.unlink()
"""


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    with RelayPlace.make(tmp_path_factory.mktemp("relay"), CONFIG).serving() as relay:
        yield relay


def test_an_action_is_run_and_told_about(relay: Relay) -> None:
    answer = relay.run("hello", who="big world")
    assert answer.status_code == 200
    body = answer.json()
    assert (body["ok"], body["exit_code"], body["stdout"]) == (True, 0, "hello big world\n")
    events = [r for r in relay.place.audit() if r.get("id") == body["id"]]
    assert [record["event"] for record in events] == ["started", "ended"]
    assert events[0]["parameters"] == {"who": "big world"}


def test_actions_are_listed_without_how_they_are_done(relay: Relay) -> None:
    listed = relay.get("/actions").json()["actions"]
    assert [action["name"] for action in listed] == ["hello", "secretive"]
    assert listed[0]["parameters"] == {"who": "[a-z ]+"}
    assert "very-secret-value" not in relay.get("/actions").text
    assert "argv" not in listed[0]


def test_health_is_open_and_tells_nothing(relay: Relay) -> None:
    answer = loopback.get(f"{relay.url}/health")
    assert (answer.status_code, answer.json()) == (200, {"ok": True})


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer wrong", "Basic {token}", "Bearer {token}x", "{token}"]
)
def test_without_the_token_nothing_is_run(relay: Relay, header: str) -> None:
    headers = {"Authorization": header.format(token=relay.place.token)} if header else {}
    before = relay.place.events().count("started")
    for path in ("/run", "/actions", "/nowhere"):
        answer = loopback.post(relay.url + path, json={"action": "hello"}, headers=headers)
        assert answer.status_code == 401
    assert relay.place.events().count("started") == before
    assert 401 in {record.get("status") for record in relay.place.audit()}


def test_a_rotated_token_counts_at_once(tmp_path: Path) -> None:
    place = RelayPlace.make(tmp_path, CONFIG)
    with place.serving() as relay:
        old = place.token
        assert relay.run("hello", who="a").status_code == 200
        place.segue("token", code=2)
        assert relay.run("hello", who="a").status_code == 200
        place.token = place.segue("token", "--rotate").stdout.strip()
        assert relay.run("hello", who="a", token=old).status_code == 401
        assert relay.run("hello", who="a").status_code == 200
    stored = (place.folder / "token.json").read_text()
    assert place.token not in stored
    assert (place.folder / "token.json").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [("Host", "evil.example"), ("Host", "127.0.0.1.evil.example"), ("Origin", "http://evil.example")],
)
def test_foreign_pages_are_refused(relay: Relay, name: str, value: str) -> None:
    for path in ("/actions", "/health"):
        assert relay.get(path, **{name: value}).status_code == 403


@pytest.mark.parametrize(
    ("action", "parameters", "status"),
    [
        ("nothing", {}, 404),
        ("hello", {}, 400),
        ("hello", {"who": "Loud"}, 400),
        ("hello", {"who": "line\n"}, 400),
        ("hello", {"who": "x", "more": "y"}, 400),
        ("hello", {"who": 1}, 400),
        ("hello", {"who": ["x"]}, 400),
        ("hello", {"who": "x" * 5000}, 400),
    ],
)
def test_what_is_not_on_the_list_is_not_run(
    relay: Relay, action: str, parameters: dict[str, Any], status: int
) -> None:
    before = relay.place.events().count("started")
    answer = relay.run(action, **parameters)
    assert answer.status_code == status
    assert answer.json()["code"] in ("unknown_action", "parameter")
    assert relay.place.events().count("started") == before
    assert relay.place.events()[-1] == "refused"


def test_wrong_methods_paths_and_sizes(relay: Relay) -> None:
    headers = {"Authorization": f"Bearer {relay.place.token}"}
    with loopback.client(base_url=relay.url, headers=headers) as client:
        assert client.get("/run").status_code == 405
        assert client.post("/actions").status_code == 405
        assert client.get("/nowhere").status_code == 404
        assert client.post("/run", content=b"x" * 70_000).status_code == 413
        pieces = (b"x" * 1000 for _ in range(70))
        assert client.post("/run", content=pieces).status_code == 413
        assert client.post("/run", content=b"[" * 60_000).status_code == 400
        for keys in (
            [("Idempotency-Key", "")],
            [("Idempotency-Key", "k" * 300)],
            [("Idempotency-Key", "a")] * 2,
        ):
            answer = client.post("/run", json={"action": "hello"}, headers=[*headers.items(), *keys])
            assert answer.status_code == 400


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["action", "parameters", "who"]), inner)
    ),
    max_leaves=8,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300) | JSON.map(lambda value: json.dumps(value).encode()))
def test_nonsense_is_refused_and_never_run(relay: Relay, body: bytes) -> None:
    headers = {"Authorization": f"Bearer {relay.place.token}"}
    answer = loopback.post(f"{relay.url}/run", content=body, headers=headers)
    assert answer.status_code in (400, 404)
    assert answer.json()["error"]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.sampled_from(["who", "x"]), JSON), st.sampled_from(["hello", "Hello", "secretive", ""])
)
def test_only_what_matches_is_run(relay: Relay, parameters: dict[str, object], action: str) -> None:
    headers = {"Authorization": f"Bearer {relay.place.token}"}
    body = json.dumps({"action": action, "parameters": parameters}).encode()
    answer = loopback.post(f"{relay.url}/run", content=body, headers=headers)
    if answer.status_code == 200:
        assert (action, parameters) == ("secretive", {}) or (
            action == "hello" and parameters.keys() == {"who"}
        )
    else:
        assert answer.status_code in (400, 404)


@pytest.mark.thorough
def test_slow_clients_are_cut(relay: Relay) -> None:
    address = ("127.0.0.1", urlsplit(relay.url).port or 0)
    head = f"POST /run HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {relay.place.token}\r\n"
    with socket.create_connection(address) as silent, socket.create_connection(address) as slow:
        silent.sendall(b"POST /run HT")
        slow.sendall(f'{head}Content-Length: 100\r\n\r\n{{"action"'.encode())
        for connection, expected in ((silent, b""), (slow, b"HTTP/1.1 408")):
            connection.settimeout(DEADLINE)
            assert connection.recv(12) == expected
    assert relay.run("hello", who="still there").status_code == 200


@pytest.mark.thorough
def test_a_hundred_at_once_and_the_limits_hold(tmp_path: Path) -> None:
    for name in ("live", "most"):
        (tmp_path / name).mkdir()
    script = tmp_path / "holding.py"
    script.write_text(HOLDING)
    argv = f'[{PYTHON}, "{script}", "{tmp_path}"]'
    config = f"[relay]\nrate = 60\n[relay.actions.hold]\nargv = {argv}\nconcurrency = 3\n"
    place = RelayPlace.make(tmp_path / "place", config)
    with place.serving() as relay, ThreadPoolExecutor(100) as pool:
        calls = [pool.submit(relay.run, "hold") for _ in range(100)]
        until(lambda: sum(call.done() for call in calls) == 97, "all but three to be refused")
        until(lambda: len(list((tmp_path / "live").iterdir())) == 3, "three to run")
        (tmp_path / "go").touch()
        answers = [call.result() for call in calls]
    assert Counter(answer.status_code for answer in answers) == {200: 3, 409: 57, 429: 40}
    assert {path.name for path in (tmp_path / "most").iterdir()} <= {"1", "2", "3"}
    assert all(0 < int(a.headers["retry-after"]) <= 60 for a in answers if a.status_code == 429)
    assert {a.json()["code"] for a in answers if a.status_code == 409} == {"busy"}
    assert place.events().count("started") == 3
