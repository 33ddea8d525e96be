"""The cloud simulator speaks v0: the same agents, conversations, and webhooks with signatures."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.parts.sim.cloud_desk import REPO, Desk, open_desk, wait_for

SECRET = "s" * 32


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with open_desk(tmp_path, webhook_pause=0.01) as made:
        yield made


@dataclass
class Delivery:
    """A webhook as it arrived."""

    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    @property
    def genuine(self) -> bool:
        wanted = "sha256=" + hmac.new(SECRET.encode(), self.body, hashlib.sha256).hexdigest()
        return hmac.compare_digest(self.headers.get("X-Webhook-Signature", ""), wanted)


@dataclass
class Mailbox:
    """What a receiver got, and the answers it still has to give."""

    url: str = ""
    got: list[Delivery] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)


@contextmanager
def receiver() -> Iterator[Mailbox]:
    """A small real receiver on loopback."""
    box = Mailbox()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            box.got.append(Delivery(dict(self.headers), body))
            self.send_response(box.answers.pop(0) if box.answers else 204)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    box.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield box
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def launch(desk: Desk, text: str = "Write a poem", **more: Any) -> dict[str, Any]:
    body = {"prompt": {"text": text}, "source": {"repository": REPO, "ref": "main"}, **more}
    made: dict[str, Any] = desk.post("/v0/agents", body, 201)
    return made


def until(desk: Desk, agent: str, *statuses: str) -> dict[str, Any]:
    found: dict[str, Any] = wait_for(
        lambda: desk.get(f"/v0/agents/{agent}"), lambda seen: seen["status"] in statuses
    )
    return found


def test_a_launch(desk: Desk) -> None:
    made = launch(desk, model="default")
    assert (made["status"], made["source"]) == ("CREATING", {"repository": REPO, "ref": "main"})
    assert made["target"].keys() == {"url", "autoCreatePr", "openAsCursorGithubApp", "skipReviewerRequest"}
    ended = until(desk, made["id"], "FINISHED")
    assert ended["summary"].startswith("Done")
    branch = ended["target"]["branchName"]
    assert desk.git("log", "--format=%s", branch).splitlines() == ["Write a poem", "First"]


def test_the_branch_can_be_named(desk: Desk) -> None:
    made = launch(desk, target={"branchName": "feature/x", "autoCreatePr": True})
    target = until(desk, made["id"], "FINISHED")["target"]
    assert (target["branchName"], target["prUrl"]) == ("feature/x", "https://github.com/Me/App/pull/1")
    second = launch(desk, "Two", source={"prUrl": target["prUrl"]}, target={"autoBranch": False})
    assert until(desk, second["id"], "FINISHED")["target"]["branchName"] == "feature/x"
    assert desk.git("log", "-1", "--format=%s", "feature/x") == "Two"


def test_both_versions_see_the_same_agents(desk: Desk) -> None:
    agent, run = desk.done("Hello")
    old = desk.get(f"/v0/agents/{agent}")
    assert (old["id"], old["status"]) == (agent, "FINISHED")
    assert old["target"]["branchName"] == run["git"]["branches"][0]["branch"]
    messages = desk.get(f"/v0/agents/{agent}/conversation")["messages"]
    assert [(m["type"], m["text"]) for m in messages] == [
        ("user_message", "Hello"), ("assistant_message", "Done: Hello"),
    ]  # fmt: skip
    made = launch(desk)
    assert {item["id"] for item in desk.get("/v1/agents")["items"]} == {agent, made["id"]}
    assert [item["id"] for item in desk.get("/v0/agents")["agents"]] == [made["id"], agent]


def test_a_follow_up_goes_on_on_the_branch(desk: Desk) -> None:
    made = launch(desk, "One")
    branch = until(desk, made["id"], "FINISHED")["target"]["branchName"]
    assert desk.post(f"/v0/agents/{made['id']}/followup", {"prompt": {"text": "Two"}}) == {"id": made["id"]}
    wait_for(lambda: desk.get("/_sim/state"), lambda state: state["active"] == 0)
    assert desk.git("log", "--format=%s", branch).splitlines() == ["Two", "One", "First"]
    assert len(desk.get(f"/v0/agents/{made['id']}/conversation")["messages"]) == 4
    assert len(desk.get(f"/v1/agents/{made['id']}/runs")["items"]) == 2


def test_a_stop(desk: Desk) -> None:
    desk.plays(hold=True)
    made = launch(desk)
    assert desk.post(f"/v0/agents/{made['id']}/stop") == {"id": made["id"]}
    assert desk.get(f"/v0/agents/{made['id']}")["status"] == "FINISHED"
    assert desk.http.post(f"/v0/agents/{made['id']}/stop").status_code == 409
    run = desk.get(f"/v1/agents/{made['id']}")["latestRunId"]
    assert desk.run(made["id"], run)["status"] == "CANCELLED"
    desk.post("/_sim/script", {"stopped_status": "EXPIRED", "stop_is_final": True})
    assert desk.get(f"/v0/agents/{made['id']}")["status"] == "EXPIRED"
    body = {"prompt": {"text": "x"}}
    assert desk.http.post(f"/v0/agents/{made['id']}/followup", json=body).status_code == 409
    desk.post("/_sim/script", {})
    assert desk.post(f"/v0/agents/{made['id']}/followup", body) == {"id": made["id"]}


@pytest.mark.parametrize("how", ["deleted", "archived"])
def test_deleted_and_archived_agents_are_a_conflict_here(desk: Desk, how: str) -> None:
    made = launch(desk)
    until(desk, made["id"], "FINISHED")
    one = f"/v0/agents/{made['id']}"
    if how == "deleted":
        assert desk.http.delete(one).json() == {"id": made["id"]}
    else:
        desk.post(f"/v1/agents/{made['id']}/archive")
    body = {"prompt": {"text": "x"}}
    answers = [
        desk.http.post(f"{one}/followup", json=body),
        desk.http.post(f"{one}/stop"),
        desk.http.get(f"{one}/conversation"),
        desk.http.delete(one),
    ]
    assert [answer.status_code for answer in answers] == [409] * 4
    assert {answer.json()["error"]["code"] for answer in answers} == {f"agent_{how}"}
    assert desk.http.get("/v0/agents/bc-unknown/conversation").status_code == 404


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"id": "composer-2.5"}},
        {"model": "gpt-1"},
        {"source": {}},
        {"source": {"repository": "github.com/me/app"}},
        {"prompt": {"text": ""}},
        {"webhook": {"url": "ftp://x"}},
        {"webhook": {"url": "http://127.0.0.1/" + "x" * 2048}},
        {"webhook": {"url": "http://127.0.0.1/", "secret": "short"}},
        {"webhook": {"url": "http://127.0.0.1/", "secret": "x" * 257}},
    ],
)
def test_what_a_launch_may_not_say(desk: Desk, change: dict[str, Any]) -> None:
    body = {"prompt": {"text": "x"}, "source": {"repository": REPO}, **change}
    answer = desk.http.post("/v0/agents", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "validation_error")


def test_artifacts_have_absolute_paths(desk: Desk) -> None:
    desk.plays(artifacts={"log.txt": "text"})
    made = launch(desk)
    until(desk, made["id"], "FINISHED")
    [item] = desk.get(f"/v0/agents/{made['id']}/artifacts")["artifacts"]
    assert item["absolutePath"].startswith("/")
    offered = desk.get(f"/v0/agents/{made['id']}/artifacts/download", path=item["absolutePath"])
    assert desk.http.get(offered["url"]).content == b"text"


def test_me_models_and_repositories(desk: Desk) -> None:
    assert desk.get("/v0/me").keys() == {"apiKeyName", "createdAt", "userEmail"}
    assert "composer-2.5" in desk.get("/v0/models")["models"]
    assert desk.get("/v0/repositories")["repositories"] == [
        {"owner": "Me", "name": "App", "repository": REPO}
    ]


def test_pages_end_without_a_cursor(desk: Desk) -> None:
    made = [launch(desk)["id"] for _ in range(3)]
    first = desk.get("/v0/agents", limit=2)
    second = desk.get("/v0/agents", limit=2, cursor=first["nextCursor"])
    assert [agent["id"] for agent in first["agents"] + second["agents"]] == made[::-1]
    assert "nextCursor" not in second


def hooked(desk: Desk, box: Mailbox, **more: Any) -> dict[str, Any]:
    return launch(desk, webhook={"url": box.url, "secret": SECRET, **more})


def test_a_webhook_with_a_signature(desk: Desk) -> None:
    with receiver() as box:
        made = hooked(desk, box)
        [delivery] = wait_for(lambda: list(box.got), bool)
        assert delivery.genuine
        assert delivery.headers["X-Webhook-Event"] == "statusChange"
        assert delivery.headers["User-Agent"] == "Cursor-Agent-Webhook/1.0"
        assert delivery.headers["X-Webhook-ID"]
        data = delivery.data
        assert (data["event"], data["id"], data["status"]) == ("statusChange", made["id"], "FINISHED")
        assert data["source"] == {"repository": REPO, "ref": "main"}
        assert desk.git("rev-parse", "--verify", data["target"]["branchName"])
        assert "prUrl" not in data["target"]


@pytest.mark.parametrize("fault", ["webhook_bad_signature", "webhook_unsigned"])
def test_webhooks_that_must_not_be_believed(desk: Desk, fault: str) -> None:
    desk.plays(faults=[fault])
    with receiver() as box:
        hooked(desk, box)
        [delivery] = wait_for(lambda: list(box.got), bool)
        assert not delivery.genuine
        assert ("X-Webhook-Signature" in delivery.headers) == (fault == "webhook_bad_signature")


def test_a_duplicate_has_the_same_id_and_body(desk: Desk) -> None:
    desk.plays(faults=["webhook_duplicate"])
    with receiver() as box:
        hooked(desk, box)
        first, second = wait_for(lambda: list(box.got), lambda got: len(got) == 2)
        assert first.headers["X-Webhook-ID"] == second.headers["X-Webhook-ID"]
        assert first.body == second.body


def test_what_is_not_taken_is_sent_again(desk: Desk) -> None:
    with receiver() as box:
        box.answers = [500, 503]
        hooked(desk, box)
        got = wait_for(lambda: list(box.got), lambda seen: len(seen) == 3)
        assert len({delivery.headers["X-Webhook-ID"] for delivery in got}) == 1


def test_an_early_webhook_comes_before_the_answer(desk: Desk) -> None:
    desk.plays(faults=["webhook_early"])
    with receiver() as box:
        made = hooked(desk, box)
        assert len(box.got) == 1, "it was there when the launch was answered"
        assert made["status"] == "CREATING"


@pytest.mark.parametrize("case", ["lost", "expired", "stopped", "deleted"])
def test_what_no_webhook_tells(desk: Desk, case: str) -> None:
    faults = {"lost": ["webhook_lost"], "expired": ["expired"]}.get(case, [])
    desk.plays(faults=faults, hold=case in ("stopped", "deleted"), times=1)
    with receiver() as box:
        made = hooked(desk, box)
        if case == "stopped":
            desk.post(f"/v0/agents/{made['id']}/stop")
        if case == "deleted":
            desk.http.delete(f"/v0/agents/{made['id']}")
        wait_for(lambda: desk.get("/_sim/state"), lambda state: state["active"] == 0)
        later = hooked(desk, box)
        got = wait_for(lambda: list(box.got), bool)
        assert [delivery.data["id"] for delivery in got] == [later["id"]]


def test_an_error_is_told(desk: Desk) -> None:
    desk.plays(faults=["error"])
    with receiver() as box:
        hooked(desk, box)
        [delivery] = wait_for(lambda: list(box.got), bool)
        assert delivery.data["status"] == "ERROR"
        assert "summary" not in delivery.data
