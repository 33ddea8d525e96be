"""Webhooks on both databases: who receives them, and what is not a delivery."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.bridge.conversations import KIND
from segue.bridge.webhooks import _pass_on, is_signed, open_inbox, parse_delivery, store_delivery
from segue.domain.events import AgentStarted
from segue.domain.run import RunKind, RunSpec
from segue.notify.webhook import sign
from segue.store import connect

BODY = json.dumps({"event": "statusChange", "id": "bc-1", "status": "FINISHED", "timestamp": "t"}).encode()


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
        delivery = parse_delivery(BODY, "d1")
        assert delivery is not None
        assert [store_delivery(store, inbox.id, delivery, None) for _ in range(3)] == [True, False, False]


def test_without_an_id_what_it_says_is_its_name() -> None:
    one, same = parse_delivery(BODY, None), parse_delivery(BODY, "  ")
    assert one is not None
    assert same is not None
    assert one.id == same.id


@given(st.binary())
def test_no_body_breaks_it(body: bytes) -> None:
    with suppress(ValueError):  # what the sender is told
        assert parse_delivery(body, "d") is None


@pytest.mark.parametrize(
    "body", [b'{"event": "statusChange"}', b'{"event": "statusChange", "id": "../x", "status": "x"}']
)
def test_a_delivery_names_an_agent(body: bytes) -> None:
    with pytest.raises(ValueError, match="id and status"):
        parse_delivery(body, "d")


@given(st.binary(), st.text(min_size=1), st.text())
def test_only_the_secret_signs(body: bytes, secret: str, other: str) -> None:
    secret = secret.encode("utf-8", "ignore").decode() or "x"
    assert is_signed(secret, body, sign(secret, body))
    assert not is_signed(secret, body + b"x", sign(secret, body))
    assert not is_signed(secret, body, other)
    assert not is_signed(secret, body, None)
