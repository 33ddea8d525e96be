"""Tells whoever launched an agent through v0 that a run has ended, with a signature."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
import uuid
from typing import Any

import httpx2

from segue.sim.cloud.objects import Agent, Run, Webhook, stamp
from segue.sim.cloud.state import Cloud

_WRONG = "not the secret that was agreed upon, but another"


def signature(secret: str, body: bytes) -> str:
    """What `X-Webhook-Signature` holds."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


async def notify(cloud: Cloud, agent: Agent, run: Run) -> None:
    """Deliver the news of a run that FINISHED or ended in ERROR, and of no other."""
    hook = agent.webhook
    if hook is None or run.status not in ("FINISHED", "ERROR") or run.play.has("webhook_lost"):
        return
    body = json.dumps(_payload(agent, run), ensure_ascii=False).encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Cursor-Agent-Webhook/1.0",
        "X-Webhook-Event": "statusChange",
        "X-Webhook-ID": str(uuid.uuid4()),
        **_signed(hook, run, body),
    }
    for _ in range(2 if run.play.has("webhook_duplicate") else 1):
        await _deliver(cloud, hook.url, headers, body)


async def _deliver(cloud: Cloud, url: str, headers: dict[str, str], body: bytes) -> None:
    """Send, and send again with the same id while it is not taken."""
    pause = cloud.script.webhook_pause
    for left in range(cloud.script.webhook_retries, -1, -1):
        try:
            if (await cloud.client.post(url, content=body, headers=headers)).is_success:
                return
        except httpx2.HTTPError:
            pass
        if left:
            await asyncio.sleep(pause)
            pause *= 2


def _signed(hook: Webhook, run: Run, body: bytes) -> dict[str, str]:
    if hook.secret is None or run.play.has("webhook_unsigned"):
        return {}
    secret = _WRONG if run.play.has("webhook_bad_signature") else hook.secret
    return {"X-Webhook-Signature": signature(secret, body)}


def _payload(agent: Agent, run: Run) -> dict[str, Any]:
    shown = agent.shown_v0("FINISHED")
    target = {
        name: shown["target"][name] for name in ("url", "branchName", "prUrl") if name in shown["target"]
    }
    facts = {
        "event": "statusChange",
        "timestamp": stamp(time.time()),
        "id": agent.id,
        "status": run.status,
        "source": agent.source(),
        "target": target,
    }
    return facts | ({"summary": run.result} if run.result else {})
