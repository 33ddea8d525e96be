"""`segue bridge serve`: messages, conversations, signed webhooks, reminders across restarts."""

from __future__ import annotations

import hashlib
import hmac
import json
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from tests import loopback
from tests.cli.place import DEADLINE, until
from tests.features.bridge.conftest import HOME, Bridge
from tests.features.bridge.test_conversation import DELEGATE
from tests.warm import start_segue

SECRET = "whsec-of-the-test-and-long-enough-for-v0"
TOKEN = "bridge-token-of-the-test"
NOW = datetime.now(UTC).isoformat()


class Served:
    """`segue bridge serve` in its own process."""

    def __init__(self, bridge: Bridge) -> None:
        self.bridge = bridge
        bridge.place.env |= {"CURSOR_WEBHOOK_SECRET": SECRET, "SEGUE_BRIDGE_TOKEN": TOKEN}
        self.process: subprocess.Popen[str] | None = None
        self.url = ""

    def start(self) -> None:
        out = self.bridge.place.root / "serve.out"
        with out.open("w") as file, (self.bridge.place.root / "serve.err").open("a") as errors:
            words = ("bridge", "serve", "--port", "0", "--repo", HOME, "--json")
            self.process = start_segue(words, self.bridge.place.repo, self.bridge.place.env, file, errors)
        until(lambda: "\n" in out.read_text(), "the bridge listens")
        self.url = json.loads(out.read_text())["url"]

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        assert self.process.wait(DEADLINE) == 0

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(DEADLINE)

    def ask(self, method: str, path: str, **kwargs: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {TOKEN}", **kwargs.pop("headers", {})}
        return loopback.request(method, f"{self.url}{path}", headers=headers, timeout=120, **kwargs)

    def say(self, message: str, **more: str) -> str:
        answer = self.ask("POST", "/messages", json={"message": message, **more})
        assert answer.status_code == 202, answer.text
        conversation: str = answer.json()["data"]["conversation"]
        return conversation

    def conversation(self, name: str) -> Any:
        return self.ask("GET", f"/conversations/{name}").json()["data"]

    def until_done(self, name: str, turns: int) -> Any:
        def over() -> bool:
            now = self.conversation(name)
            return bool(now["state"] == "done" and len(now["conversation"]) >= turns)

        until(over, f"{name} is done after {turns} turns")
        return self.conversation(name)


@pytest.fixture
def served(bridge: Bridge) -> Iterator[Served]:
    found = Served(bridge)
    found.start()
    yield found
    if found.process is not None and found.process.poll() is None:
        found.stop()


def delivery(agent: str, status: str = "FINISHED", **more: str) -> bytes:
    return json.dumps(
        {"event": "statusChange", "id": agent, "status": status, "timestamp": NOW, **more}
    ).encode()


def signed(body: bytes, name: str, secret: str = SECRET) -> dict[str, str]:
    mac = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {"X-Webhook-Signature": f"sha256={mac}", "X-Webhook-ID": name}


def test_messages_are_carried_out_and_conversations_shown(served: Served) -> None:
    served.bridge.replies(DELEGATE, "All is done.", "And hello again.")
    name = served.say("Add a health check")
    seen = served.until_done(name, 2)
    assert seen["conversation"][1]["reply"] == "All is done."
    assert served.say("Still there?", conversation=name) == name
    assert served.until_done(name, 3)["conversation"][2]["reply"] == "And hello again."
    [listed] = served.ask("GET", "/conversations").json()["data"]
    assert (listed["id"], listed["turns"]) == (name, 3)


def test_who_is_no_friend_is_refused(served: Served) -> None:
    assert loopback.get(f"{served.url}/conversations").status_code == 401
    assert served.ask("GET", "/conversations", headers={"Host": "evil.example"}).status_code == 403
    assert served.ask("GET", "/conversations", headers={"Origin": "http://evil.example"}).status_code == 403
    assert served.ask("GET", "/messages").status_code == 405
    assert served.ask("GET", "/conversations/nothing").status_code == 404
    assert served.ask("POST", "/messages", content=b"{" * 1_100_000).status_code == 413
    assert loopback.get(f"{served.url}/health").status_code == 200


def test_wrong_messages_are_refused(served: Served) -> None:
    wrong: list[Any] = ["", "[]", "{", '{"message": ""}', '{"message": 1}']
    wrong += [json.dumps({"message": "x", **more}) for more in ({"repo": "nowhere"}, {"agent": "nobody"})]
    for body in [*wrong, '{"message": "x", "conversation": "none"}', b"\xff\xfe"]:
        answer = served.ask("POST", "/messages", content=body)
        assert answer.status_code == 400, body
        assert answer.json()["error"]["message"]
    assert served.ask("GET", "/conversations").json()["data"] == []


def test_webhooks_must_be_signed(served: Served) -> None:
    body = delivery("bc-1")
    url = f"{served.url}/webhooks/cursor"
    assert loopback.post(url, content=body).status_code == 401
    assert loopback.post(url, content=body, headers=signed(body, "1", "wrong")).status_code == 401
    assert loopback.post(url, content=body + b" ", headers=signed(body, "1")).status_code == 401
    assert loopback.post(url, content=b"{", headers=signed(b"{", "1")).status_code == 400
    assert loopback.post(url, content=body, headers=signed(body, "1")).json()["data"]["taken"] is True
    assert loopback.post(url, content=body, headers=signed(body, "1")).json()["data"]["taken"] is False
    again = loopback.post(url, content=body, headers=signed(body, "another id"))
    assert again.json()["data"]["taken"] is False, "the id is not signed, the body is"
    old = delivery("bc-1", timestamp=(datetime.now(UTC) - timedelta(days=2)).isoformat())
    assert loopback.post(url, content=old, headers=signed(old, "2")).status_code == 400
    assert served.ask("POST", "/webhooks/cursor", content=body).status_code == 401, (
        "the token is no signature"
    )


def test_an_address_that_names_a_conversation_must_be_signed(served: Served) -> None:
    served.bridge.replies("Hello.")
    name = served.say("Hi")
    address = served.until_done(name, 1)["webhook"]
    body = delivery("bc-7")
    for path in (f"/webhooks/cursor?conversation={name}", address.replace(name, "other")):
        assert loopback.post(served.url + path, content=body, headers=signed(body, "1")).status_code == 401
    taken = loopback.post(served.url + address, content=body, headers=signed(body, "1"))
    assert taken.json()["data"]["taken"] is True


def test_a_real_webhook_is_confirmed_and_told(served: Served) -> None:
    """Somebody else launched the agent through v0, which delivers twice."""
    served.bridge.replies("Hello.", "Thank you.")
    name = served.say("Hi")
    served.until_done(name, 1)
    served.bridge.script(
        {"prompt": "Elsewhere", "say": "Built it.", "faults": ["webhook_duplicate"]},
        {"prompt": "bridge", "say": "Thank you."},
    )
    body = {
        "prompt": {"text": "Elsewhere"},
        "source": {"repository": HOME},
        "webhook": {"url": served.url + served.conversation(name)["webhook"], "secret": SECRET},
    }
    key = httpx2.BasicAuth("crsr_test_key_1234", "")
    answer = loopback.post(f"{served.bridge.url}/v0/agents", json=body, auth=key)
    assert answer.status_code == 201, answer.text
    told = served.until_done(name, 2)["conversation"][1]
    assert f"agent_id={answer.json()['id']}, status=done" in told["results"]
    assert "Built it." in told["results"]
    assert len(served.conversation(name)["conversation"]) == 2
    replayed = delivery(answer.json()["id"], "ERROR")
    headers = signed(replayed, "replay")
    assert (
        loopback.post(f"{served.url}/webhooks/cursor", content=replayed, headers=headers).status_code == 200
    )
    until(lambda: any("stale" in outcome for outcome in outcomes(served)), "the API is asked")


def outcomes(served: Served) -> list[str]:
    sql = "SELECT data FROM orchestrator_events WHERE type = 'bridge.webhook'"
    return [json.loads(data)["outcome"] for (data,) in served.bridge.place.rows(sql)]


def test_reminders_and_conversations_survive_kill_9(served: Served) -> None:
    served.bridge.replies("REMIND: in 3s, look at the build", "I looked.")
    name = served.say("Remind yourself")
    until(lambda: served.conversation(name)["state"] == "parked", "the reminder is set")
    served.kill()
    served.start()
    told = served.until_done(name, 2)["conversation"]
    assert "status=due" in told[1]["results"]
    assert len(told) == 2
    assert len(served.bridge.launches()) == 1


def test_only_one_bridge_serves_a_store(served: Served) -> None:
    served.bridge.place.segue("bridge", "serve", "--port", "0", code=6)
