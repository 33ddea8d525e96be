"""The relay over HTTP: tokens and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import loopback
from tests.features.relay.place import Relay, RelayPlace

CONFIG = """
[relay.actions.hello]
argv = ["echo", "hello", "{who}"]
description = "Says hello."
parameters = { who = "[a-z ]+" }
[relay.actions.secretive]
argv = ["true"]
env = { MY_TOKEN = "very-secret-value" }
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


@pytest.mark.parametrize("header", ["", "Basic {token}", "Bearer {token}x"])
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
    [("Host", "127.0.0.1.evil.example"), ("Origin", "http://evil.example")],
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
        ("hello", {"who": "x", "more": "y"}, 400),
        ("hello", {"who": ["x"]}, 400),
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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300))
def test_nonsense_is_refused_and_never_run(relay: Relay, body: bytes) -> None:
    headers = {"Authorization": f"Bearer {relay.place.token}"}
    answer = loopback.post(f"{relay.url}/run", content=body, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "request")
