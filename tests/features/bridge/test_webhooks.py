"""Webhooks on both databases: who receives them, and what is not a delivery."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.events import AgentStarted
from segue.domain.run import RunKind, RunSpec
from segue.features.bridge.conversations import KIND
from segue.features.bridge.webhooks import (
    _pass_on,
    confirm,
    conversation_path,
    is_signed,
    names_conversation,
    open_inbox,
    parse_delivery,
    store_delivery,
)
from segue.features.notify.webhook import sign
from segue.store import connect
from segue.system.http.client import HttpClient, HttpPolicy


def make_body(at: datetime | None = None, **more: str) -> bytes:
    timestamp = (at or datetime.now(UTC)).isoformat()
    body = {"event": "statusChange", "id": "bc-1", "status": "FINISHED", "timestamp": timestamp, **more}
    return json.dumps(body).encode()


def test_a_delivery_goes_to_who_launched_the_agent_once(database: str) -> None:
    woken: list[str] = []

    async def story() -> list[str]:
        with connect(database) as store:
            run = store.create(
                "bridge:x", RunSpec(KIND, "talk", "", "cursor-cloud", KIND, kind=RunKind.CONVERSATION)
            )
            other = store.create("plan", RunSpec("planfile", "plan.md", "", "cursor-cloud", "execute"))
            for one in (run, other):
                journal = await store.open(one.id)
                await journal.emit(AgentStarted(agent_id="bc-1"))
                await store.close(journal)
            facts: dict[str, Any] = {
                "agent_id": "bc-1",
                "status": "FINISHED",
                "timestamp": "t",
                "delivery": "d",
            }
            outcomes = [_pass_on(store, facts, woken.append) for _ in range(2)]
            outcomes.append(_pass_on(store, {**facts, "agent_id": "bc-2"}, woken.append))
            outcomes.append(_pass_on(store, {**facts, "conversation": other.id}, woken.append))
            assert woken == [run.id, run.id]
            return outcomes

    nobody = "no conversation is waiting for it"
    assert asyncio.run(story()) == ["delivered", "delivered before", nobody, nobody]


def test_a_delivery_is_kept_once(database: str) -> None:
    with connect(database) as store:
        inbox = open_inbox(store)
        assert open_inbox(store).id == inbox.id
        delivery = parse_delivery(make_body())
        assert delivery is not None
        assert [store_delivery(store, inbox.id, delivery, None) for _ in range(3)] == [True, False, False]


@pytest.mark.parametrize("hours", [-1, 25])
def test_an_old_delivery_is_not_taken_again(hours: int) -> None:
    with pytest.raises(ValueError, match="too far from now"):
        parse_delivery(make_body(datetime.now(UTC) - timedelta(hours=hours)))
    assert parse_delivery(make_body(datetime.now(UTC) - timedelta(hours=23))) is not None


def test_a_time_that_cannot_be_read_is_refused_and_none_is_left_to_the_digest() -> None:
    with pytest.raises(ValueError, match="not a time"):
        parse_delivery(make_body(timestamp="yesterday"))
    assert parse_delivery(make_body(timestamp="")) is not None


def test_an_underscore_in_an_id_stands_for_itself(database: str) -> None:
    async def launch() -> str:
        with connect(database) as store:
            spec = RunSpec(KIND, "talk", "", "cursor-cloud", KIND, kind=RunKind.CONVERSATION)
            journal = await store.open(store.create("bridge:x", spec).id)
            await journal.emit(AgentStarted(agent_id="bc-1"))
            await store.close(journal)
            facts = {"agent_id": "bc_1", "status": "FINISHED", "timestamp": "t", "delivery": "d"}
            return _pass_on(store, facts, lambda _run: None)

    assert asyncio.run(launch()) == "no conversation is waiting for it"


@given(st.text(), st.text())
def test_only_the_secret_names_a_conversation(name: str, other: str) -> None:
    signature = conversation_path("secret", name).rpartition("=")[2]
    assert names_conversation("secret", name, signature)
    assert names_conversation("secret", other, signature) is (name == other)
    assert not names_conversation("secret", name, other)
    assert not names_conversation("else", name, signature)
    assert not is_signed("secret", name.encode("utf-8", "ignore"), f"sha256={signature}")


@given(st.binary())
def test_no_body_breaks_it(body: bytes) -> None:
    with suppress(ValueError):  # what the sender is told
        assert parse_delivery(body) is None


@given(st.binary(), st.text(min_size=1), st.text())
def test_only_the_secret_signs(body: bytes, secret: str, other: str) -> None:
    secret = secret.encode("utf-8", "ignore").decode() or "x"
    assert is_signed(secret, body, sign(secret, body))
    assert not is_signed(secret, body + b"x", sign(secret, body))
    assert not is_signed(secret, body, other)
    assert not is_signed(secret, body, None)


@pytest.mark.parametrize("status", [429, 503])
def test_a_delivery_waits_while_the_api_is_in_trouble(status: int) -> None:
    answers = [status, status, 200]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline() not in (b"\r\n", b""):
            pass
        body = b'{"status": "FINISHED"}'
        writer.write(b"HTTP/1.1 %d x\r\nConnection: close\r\n" % answers.pop(0))
        writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    async def story() -> str:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with HttpClient(f"http://127.0.0.1:{port}", {}, HttpPolicy(attempts=1)) as api:
                return await confirm(api, "bc-1", "FINISHED", pause=0.001)

    assert asyncio.run(story()) == ""
    assert answers == []
