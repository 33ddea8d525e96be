"""Tells a URL of the user that a subagent has ended, signed and in the form of Cursor's own webhooks."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from segue.bridge.desk import Desk
from segue.domain.event import EventType
from segue.ports import StepFacts, StepResult
from segue.system.http.client import HttpClient, HttpError, HttpPolicy

_STATUS = {"done": "FINISHED"}
_POLICY = HttpPolicy(timeout=20.0, attempts=4)


def signature(secret: str, body: bytes) -> str:
    """The value of the header X-Webhook-Signature."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


async def tell(desk: Desk, key: str, facts: dict[str, Any]) -> None:
    """Post the end of a subagent, once as far as the receiver looks at the delivery's id."""
    url = desk.settings.completion_url
    if url is None:
        return

    async def work(token: str) -> StepResult:
        problem = await _posted(desk, url, token, _body(facts))
        data = {"delivery": token, "agent_id": facts.get("agent_id", ""), "status": facts["status"]}
        await desk.emit(
            EventType.BRIDGE_WEBHOOK, key, **data, direction="out", outcome=problem or "delivered"
        )
        return StepResult(not problem, {"problem": problem})

    await desk.journal.step(f"{key}/completion", work, facts=StepFacts(phase="completion"))


def _body(facts: dict[str, Any]) -> dict[str, Any]:
    target = {"url": facts.get("url", ""), "branchName": facts.get("branch", "")}
    return {
        "event": "statusChange",
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "id": facts.get("agent_id", ""),
        "status": _STATUS.get(facts["status"], "ERROR"),
        "source": {"repository": facts.get("repo", "")},
        "target": {name: value for name, value in target.items() if value},
        "summary": str(facts.get("text") or facts.get("reason") or "")[:4000],
    }


async def _posted(desk: Desk, url: str, token: str, body: dict[str, Any]) -> str:
    """What went wrong; empty when it arrived."""
    secret = os.environ.get(desk.settings.completion_secret_env, "").strip()
    if not secret:
        return f"not sent: {desk.settings.completion_secret_env} is not set, and nothing goes out unsigned"
    parts = urlsplit(url)
    # Signed as it is sent: the client serialises with the same function.
    headers = {
        "X-Webhook-Signature": signature(secret, json.dumps(body).encode()),
        "X-Webhook-ID": token,
        "X-Webhook-Event": "statusChange",
    }
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        async with HttpClient(f"{parts.scheme}://{parts.netloc}", {}, _POLICY) as http:
            answer = await http.request("POST", path, body=body, headers=headers, repeatable=True)
    except HttpError as error:
        return str(error)
    return "" if 200 <= answer.status < 300 else f"answered with {answer.status}"
