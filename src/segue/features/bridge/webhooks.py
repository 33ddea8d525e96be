"""Receives Cursor's webhooks: each delivery is signed, recent, stored once and confirmed at the API.

The signature covers the body alone. So a delivery is known by the digest of its body, not by its header, and
an address that names a conversation has a signature of its own.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from msgspec import Struct

from segue.agents.cursor_cloud.api import KEY, CursorCloudOptions, parse_status
from segue.domain.events import AgentStarted
from segue.domain.options import read_options
from segue.domain.results import StepFacts, StepResult
from segue.domain.run import Run, RunKind, RunSpec, RunState
from segue.features.bridge.conversations import KIND
from segue.features.bridge.events import BridgeWebhook
from segue.features.bridge.steps import InboxOutput
from segue.features.notify.webhook import sign
from segue.runtime.app import App
from segue.system.http.client import HttpClient, HttpError, HttpPolicy

if TYPE_CHECKING:
    from segue.store.journal import Journal
    from segue.store.store import Store


WEBHOOKS = "/webhooks/cursor"
INBOX = "bridge-webhooks"
_SPEC = RunSpec(INBOX, "webhooks", "", "", KIND, kind=RunKind.INBOX)
"""The kind of the run that contains all deliveries, so that each is processed once."""

_ID = re.compile(r"[A-Za-z0-9][\w.:-]{0,199}", re.ASCII)
_OLDEST = timedelta(hours=24)
_EARLIEST = timedelta(minutes=10)
"""How far the time of a delivery may be in the past (senders retry) and in the future (clocks differ)."""

_SAID = {"finished": "done"}
"""Cursor's words where the protocol has others."""

_MAX_PAUSE = 60.0
_BATCH = 100
"""Deliveries per step: a flood must not cost as many transactions."""

_LISTENING = (RunState.RUNNING, RunState.PARKED, RunState.DONE)
"""Conversations that are woken at once; a stopped one gets the message when it is resumed."""


class WebhookDelivery(Struct, frozen=True):
    """The parts of one webhook that matter."""

    id: str
    agent_id: str
    status: str
    timestamp: str
    payload: dict[str, Any]


def is_signed(secret: str, body: bytes, header: str | None) -> bool:
    """Return whether the body is signed with the secret, in constant time."""
    given = (header or "").strip().encode("utf-8", "surrogatepass")
    return hmac.compare_digest(given, sign(secret, body).encode())


def conversation_path(secret: str, conversation: str) -> str:
    """Return the path for webhooks that are meant for a conversation, whoever launched the agent."""
    return (
        f"{WEBHOOKS}?conversation={quote(conversation, safe='')}&signature={_sign_name(secret, conversation)}"
    )


def names_conversation(secret: str, conversation: str, signature: str | None) -> bool:
    """Return whether the address of a conversation was made with the secret, in constant time."""
    given = (signature or "").encode("utf-8", "surrogatepass")
    return hmac.compare_digest(given, _sign_name(secret, conversation).encode())


def _sign_name(secret: str, conversation: str) -> str:
    # No body begins with a null character, so this is never the signature of one.
    name = b"\0conversation\0" + conversation.encode("utf-8", "surrogatepass")
    return hmac.new(secret.encode(), name, hashlib.sha256).hexdigest()


def parse_delivery(body: bytes) -> WebhookDelivery | None:
    """Return the delivery; None if it is about something else. Raise ValueError if it is malformed or old."""
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("the body is not valid JSON") from None
    if not isinstance(payload, dict):
        raise ValueError("the body is not a JSON object")  # noqa: TRY004 - a wrong body
    if payload.get("event") != "statusChange":
        return None
    agent, status, at = (str(payload.get(name, "")) for name in ("id", "status", "timestamp"))
    if not _ID.fullmatch(agent) or not status:
        raise ValueError("id and status are required")
    _check_time(at)
    return WebhookDelivery(hashlib.sha256(body).hexdigest(), agent, status, at, payload)


def _check_time(text: str) -> None:
    """Raise ValueError if a delivery is from another day; without a time, its digest must do."""
    if not text:
        return
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("timestamp is not a time such as 2030-01-31T09:00:00Z") from None
    age = datetime.now(UTC) - (at if at.tzinfo else at.replace(tzinfo=UTC))
    if not -_EARLIEST <= age <= _OLDEST:
        raise ValueError("timestamp is too far from now: an old delivery is not taken again")


def store_delivery(store: Store, inbox: str, delivery: WebhookDelivery, conversation: str | None) -> bool:
    """Store a delivery; return False if it was stored before."""
    target = delivery.payload.get("target")
    source = delivery.payload.get("source")
    facts = {
        "delivery": delivery.id,
        "agent_id": delivery.agent_id,
        "status": delivery.status,
        "timestamp": delivery.timestamp,
        "repo": str(source.get("repository", "")) if isinstance(source, dict) else "",
        "branch": str(target.get("branchName", "")) if isinstance(target, dict) else "",
        "text": str(delivery.payload.get("summary", ""))[:8000],
        "conversation": conversation,
    }
    return store.send(inbox, "webhook", facts, f"webhook/{delivery.id}")


def open_inbox(store: Store) -> Run:
    """Return the run that contains all deliveries to this store."""
    found = store.runs(source_key=f"{KIND}:webhooks", limit=1)
    return found[0] if found else store.create(f"{KIND}:webhooks", _SPEC)


async def dispatch(app: App, store: Store, journal: Journal, ensure: Callable[[str], None]) -> None:
    """Confirm each delivery at the API and pass it to its conversation, for ever."""
    await journal.set_state(RunState.DONE, "contains the webhooks of `segue bridge serve`")
    loop = asyncio.get_running_loop()

    def on_loop(run_id: str) -> None:
        loop.call_soon_threadsafe(ensure, run_id)

    async with _open_api(app) as api:

        async def work(_token: str) -> StepResult[InboxOutput]:
            facts = await journal.wait("webhook")
            taken = 0
            while facts is not None:
                taken += 1
                outcome = await confirm(api, facts["agent_id"], facts["status"])
                outcome = outcome or await asyncio.to_thread(_pass_on, store, facts, on_loop)
                about = (facts["agent_id"], facts["status"], "in", outcome, facts["delivery"])
                await journal.emit(BridgeWebhook(*about))
                facts = await journal.wait("webhook", timeout=0) if taken < _BATCH else None
            return StepResult(True, InboxOutput(taken))

        number = sum(step.ended is not None for step in journal.steps("webhook/"))
        while True:
            number += 1
            await journal.step(f"webhook/{number}", InboxOutput, work, facts=StepFacts(phase="webhook"))


@asynccontextmanager
async def _open_api(app: App) -> AsyncIterator[HttpClient | None]:
    """Open Cursor's API; None without a key."""
    key = os.environ.get(KEY, "").strip()
    if not key:
        yield None
        return
    options = read_options(CursorCloudOptions, app.loaded.settings.agents.get("cursor-cloud", {}))
    basic = base64.b64encode(f"{key}:".encode()).decode()
    policy = HttpPolicy(timeout=20.0, pause=options.retry_pause)
    async with HttpClient(options.base_url, {"Authorization": f"Basic {basic}"}, policy) as http:
        yield http


async def confirm(api: HttpClient | None, agent: str, status: str, pause: float = 1.0) -> str:
    """Return why a delivery is not believed; empty if the API confirms it. Wait while it cannot answer."""
    if api is None:
        return f"not confirmed: {KEY} is not set"
    while True:
        try:
            answer = await api.request("GET", f"/v0/agents/{quote(agent, safe='')}")
        except HttpError:
            pass
        else:
            if answer.status < 500 and answer.status not in (408, 429):
                break
        await asyncio.sleep(pause)
        pause = min(2 * pause, _MAX_PAUSE)
    if answer.status != 200:
        return f"not confirmed: the API answered with {answer.status}"
    try:
        data = answer.json()
    except ValueError:
        data = None
    now = parse_status(data.get("status")) if isinstance(data, dict) else None
    return "" if now is parse_status(status) else f"stale: the API says {now}"


def _pass_on(store: Store, facts: dict[str, Any], ensure: Callable[[str], None]) -> str:
    run = _find_conversation(store, facts)
    if run is None:
        return "no conversation is waiting for it"
    words = "\0".join((facts["agent_id"], facts["status"], facts["timestamp"]))
    name = hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    status = facts["status"].lower()
    payload = {**facts, "kind": "webhook", "status": _SAID.get(status, status)}
    fresh = store.send(run.id, "message", payload, f"webhook/{name}")
    if run.state in _LISTENING:
        ensure(run.id)
    return "delivered" if fresh else "delivered before"


def _find_conversation(store: Store, facts: dict[str, Any]) -> Run | None:
    """Return the conversation that the sender names, or the one that launched the agent."""
    names = [facts["conversation"]] if facts.get("conversation") else []
    if not names:
        found = store.query(
            "SELECT DISTINCT run_id FROM orchestrator_events"
            " WHERE type = ? AND CAST(data AS TEXT) LIKE ? ESCAPE '!'",
            [AgentStarted.type, f'%"{facts["agent_id"].replace("_", "!_")}"%'],
        )
        names = [row["run_id"] for row in found]
    runs = [store.run(name) for name in names]
    return next((run for run in runs if run is not None and run.spec.kind is RunKind.CONVERSATION), None)
