"""Notify whoever launched an agent through v0 that a run has ended, with a signature."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
import uuid
from typing import Any

import httpx2

from segue.sim.cloud.objects import CloudAgentRecord, CloudRunRecord, Webhook, format_time
from segue.sim.cloud.state import Cloud

_WRONG = "another secret than the one agreed on"


def sign_body(secret: str, body: bytes) -> str:
    """Return the value of `X-Webhook-Signature`."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


async def notify(cloud: Cloud, agent: CloudAgentRecord, run: CloudRunRecord) -> None:
    """Deliver the end of a run that is FINISHED or in ERROR, and of no other."""
    hook = agent.webhook
    if hook is None or run.status not in ("FINISHED", "ERROR") or run.play.has("webhook_lost"):
        return
    body = json.dumps(_build_payload(agent, run), ensure_ascii=False).encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Cursor-Agent-Webhook/1.0",
        "X-Webhook-Event": "statusChange",
        "X-Webhook-ID": str(uuid.uuid4()),
        **_sign(hook, run, body),
    }
    for _ in range(2 if run.play.has("webhook_duplicate") else 1):
        await _deliver(cloud, hook.url, headers, body)


async def _deliver(cloud: Cloud, url: str, headers: dict[str, str], body: bytes) -> None:
    """Send, and retry with the same id until it is accepted."""
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


def _sign(hook: Webhook, run: CloudRunRecord, body: bytes) -> dict[str, str]:
    if hook.secret is None or run.play.has("webhook_unsigned"):
        return {}
    secret = _WRONG if run.play.has("webhook_bad_signature") else hook.secret
    return {"X-Webhook-Signature": sign_body(secret, body)}


def _build_payload(agent: CloudAgentRecord, run: CloudRunRecord) -> dict[str, Any]:
    shown = agent.describe_v0("FINISHED")
    target = {
        name: shown["target"][name] for name in ("url", "branchName", "prUrl") if name in shown["target"]
    }
    facts = {
        "event": "statusChange",
        "timestamp": format_time(time.time()),
        "id": agent.id,
        "status": run.status,
        "source": agent.describe_source(),
        "target": target,
    }
    return facts | ({"summary": run.result} if run.result else {})
